//! `stockade serve`: MCP and REST over HTTP.
#![expect(clippy::print_stderr, reason = "the first key is shown to people once, not logged")]

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use sha2::Digest;
use stockade_core::backend::Backend;
use stockade_core::store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Flags, block_on};
use crate::config::Config;
use crate::http::{self, HttpOptions};
use crate::{assembly, auth, data_dir, links, logs};

/// Flags of `serve`, and of `up`, which serves in the end.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

impl Serve {
    pub(super) fn flags(&self) -> Flags {
        let listen = self.listen.clone().map(|listen| ("server.listen", listen, "--listen"));
        listen.into_iter().collect()
    }
}

pub(super) fn carry_out(config: &Config) -> Result<ExitCode> {
    logs::start(&config.log);
    data_dir::open(&config.data_dir)?;
    let _lock = data_dir::lock_for_server(&config.data_dir)?;
    let backend = assembly::backend(&config.data_dir)?;
    let store = assembly::store(&config.data_dir)?;
    serve(config, backend, store, |secret| {
        if let Some(secret) = secret {
            eprintln!("The first admin key, shown only now:\n\n  {secret}\n");
        }
    })
}

/// The first admin key, where one has to be made. A server that others can reach
/// must have been given one before: nobody would see it printed.
pub(super) fn first_key(config: &Config, store: &dyn Store) -> Result<Option<String>> {
    let given = std::env::var("STOCKADE_ADMIN_KEY").ok();
    let none_yet = store.keys()?.is_empty();
    if none_yet && given.is_none() && !config.server.listen.ip().is_loopback() {
        bail!(
            "{} can be reached from other machines and there is no key yet; make one first with \
             `stockade key create admin --role admin`, or set STOCKADE_ADMIN_KEY",
            config.server.listen
        );
    }
    let unknown = |given: &String| {
        let hash = <[u8; 32]>::from(sha2::Sha256::digest(given));
        store.key_by_hash(&hash).is_ok_and(|found| found.is_none())
    };
    if !none_yet && given.as_ref().is_some_and(unknown) {
        tracing::warn!(
            "STOCKADE_ADMIN_KEY is none of the keys and is not taken: it counts at the first start \
             only; make further keys with `stockade key create`"
        );
    }
    Ok(auth::admin_key(store, given.as_deref())?)
}

/// Serves until a signal asks to stop. `greet` gets the first key, if one was made.
pub(super) fn serve(
    config: &Config,
    backend: Arc<dyn Backend>,
    store: Arc<dyn Store>,
    greet: impl FnOnce(Option<&str>),
) -> Result<ExitCode> {
    block_on(async {
        let server = &config.server;
        let options = HttpOptions {
            listen: server.listen,
            public_base_url: server.public_base_url.clone(),
            allowed_hosts: server.allowed_hosts.clone(),
            allowed_origins: server.allowed_origins.clone(),
            max_body_bytes: server.max_body_bytes,
            max_upload_bytes: server.max_upload_bytes,
            shutdown_grace: server.shutdown_grace,
            link_ttl: config.link_ttl,
            max_connections: server.max_connections,
        };
        let listener = TcpListener::bind(server.listen).await.with_context(|| {
            format!("listening on {}; choose another with --listen", server.listen)
        })?;
        // Only now: a key that is made is shown once, and a server that cannot listen shows nothing.
        greet(first_key(config, store.as_ref())?.as_deref());
        let engine = assembly::engine(config, backend, store.clone()).await?;
        warn_about_the_wall(&engine).await;
        let links = links::Links::open(
            &config.data_dir,
            &server.public_base_url,
            config.link_ttl,
            store.clone(),
        )?;
        let keys = Arc::new(auth::Keys::new(store));
        let router = http::router(engine.clone(), keys, Arc::new(links), &options);
        let stop = CancellationToken::new();
        let serving = tokio::spawn({
            let stop = stop.clone();
            async move { http::serve(listener, router, &options, stop).await }
        });
        tracing::info!(listen = %server.listen, url = %server.public_base_url, "serving");
        stop_signal().await?;
        tracing::info!(
            grace_s = server.shutdown_grace.as_secs(),
            "stopping; a second signal forces it"
        );
        stop.cancel();
        tokio::select! {
            () = engine.shutdown(server.shutdown_grace) => {}
            signal = stop_signal() => {
                signal?;
                engine.shutdown(std::time::Duration::ZERO).await;
            }
        }
        serving.await??;
        Ok(ExitCode::SUCCESS)
    })
}

async fn warn_about_the_wall(engine: &stockade_core::engine::Engine) {
    match engine.isolation().await {
        Ok(isolation) => {
            tracing::info!(level = ?isolation.level, "the wall; `stockade doctor` has the details");
        }
        Err(error) => {
            tracing::error!(%error, "no sandbox can be made; `stockade doctor` says why");
        }
    }
}

/// Resolves at SIGTERM or SIGINT.
pub(super) async fn stop_signal() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
