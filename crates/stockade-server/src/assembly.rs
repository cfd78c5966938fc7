//! Puts the parts together: backend first, then state, then the engine.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use stockade_core::backend::Backend;
use stockade_core::engine::{Engine, Settings};
use stockade_core::store::Store;
use stockade_native::{Native, NativeOptions};
use stockade_runtimes::Prepared;

use crate::config::Config;
use crate::data_dir;
use crate::state::SqliteStore;

/// Starts the backend. To be called first: it forks its launcher, which is cheap
/// only while this process is small, and sound only while it has one thread.
pub fn backend(data_dir: &Path) -> Result<Arc<dyn Backend>> {
    data_dir::open(data_dir)?;
    let options = NativeOptions { state_dir: data_dir.join("native"), uid_base: None };
    Ok(Native::start(options).context("starting the native backend")?)
}

/// Opens the state.
pub fn store(data_dir: &Path) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(SqliteStore::open(data_dir)?))
}

/// Starts the engine.
pub async fn engine(
    config: &Config,
    backend: Arc<dyn Backend>,
    store: Arc<dyn Store>,
) -> Result<Arc<Engine>> {
    let prepared = stockade_runtimes::installed(&config.data_dir);
    for problem in &prepared.problems {
        let (what, cause, remedy) = (&problem.what, &problem.cause, &problem.remedy);
        tracing::warn!(what, cause, remedy, "not everything is ready");
    }
    let settings = settings(config, prepared)?;
    Engine::start(settings, backend, store).await.context("starting the engine")
}

fn settings(config: &Config, prepared: Prepared) -> Result<Settings> {
    let runtimes = stockade_runtimes::table(config.runtimes.clone())
        .map_err(|problems| anyhow::anyhow!("[[runtime]]: {}", problems.join("; ")))?;
    let mut base_env = stockade_runtimes::base_env();
    base_env.extend(prepared.env);
    let mut host_mounts = prepared.mounts;
    host_mounts.extend(config.mounts.clone());
    let engine = &config.engine;
    Ok(Settings {
        data_dir: config.data_dir.clone(),
        default_limits: config.default_limits,
        ceiling: config.ceiling,
        required_layers: config.policy.required_layers.clone(),
        networks: config.policy.networks.clone(),
        host_mounts,
        image_roots: config.policy.image_roots.clone(),
        runtimes,
        packages: prepared.packages,
        base_env,
        fixed_env: std::collections::BTreeMap::new(),
        max_concurrent: engine.max_concurrent,
        max_queued: engine.max_queued,
        answer_within: engine.answer_within,
        sandbox_idle: engine.sandbox_idle,
        sandbox_life: engine.sandbox_life,
        max_sandboxes_per_owner: engine.max_sandboxes_per_owner,
        workspace_idle: engine.workspace_idle,
        run_retention: engine.run_retention,
        workspace_bytes: engine.workspace_bytes,
    })
}
