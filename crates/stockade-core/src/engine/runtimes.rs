//! What there is to work with: languages, versions, packages, limits, networks.

use std::collections::BTreeMap;

use super::Engine;
use super::registry::Plan;
use super::tools::Tool;
use crate::caller::{Action, Caller};
use crate::error::Result;
use crate::id::OwnerId;
use crate::limits::Limits;
use crate::request::{NetworkRequest, RuntimeView, RuntimesView};

impl Engine {
    /// Languages, versions, packages, limits and networks.
    pub async fn runtimes(&self, caller: &Caller) -> Result<RuntimesView> {
        caller.may(Action::Read)?;
        self.find_tools().await?;
        let image = self.host_image();
        let (mut runtimes, mut missing) = (Vec::new(), Vec::new());
        for runtime in &self.settings.runtimes {
            let version = match self.tools.known(&image, runtime) {
                Some(Tool::Found { version, .. }) => version,
                Some(Tool::Missing) | None => {
                    missing.push(runtime.id.clone());
                    continue;
                }
            };
            runtimes.push(RuntimeView {
                language: runtime.id.clone(),
                aliases: runtime.aliases.clone(),
                version,
                packages: self.settings.packages.get(&runtime.id).cloned().unwrap_or_default(),
                notes: runtime.notes.clone(),
            });
        }
        let mut networks = vec![NetworkRequest::None];
        networks.extend(self.settings.networks.iter().filter(|n| **n != NetworkRequest::None));
        Ok(RuntimesView {
            runtimes,
            missing,
            limits: in_words(&self.settings.default_limits, &self.settings.ceiling),
            networks,
            level: self.isolation().await?.level,
        })
    }

    /// Finds out which tools the machine has, once, in a sandbox of its own.
    pub(crate) async fn find_tools(&self) -> Result<()> {
        let _asking = self.tools.asking.lock().await;
        let image = self.host_image();
        let runtimes = &self.settings.runtimes;
        if runtimes.iter().all(|runtime| self.tools.known(&image, runtime).is_some()) {
            return Ok(());
        }
        let entry = self.sandboxes.registry.reserve(Plan {
            // No key has this name, so nobody sees the sandbox.
            owner: OwnerId::of_key("stockade/tools"),
            name: None,
            workspace_name: None,
            image: image.clone(),
            network: NetworkRequest::None,
            limits: self.settings.default_limits,
            idle: self.settings.sandbox_idle,
            for_a_run: true,
        })?;
        let _busy = self.sandboxes.registry.hold(&entry)?;
        let live = self.sandboxes.live(&entry).await?;
        let found = self.tools.find_all(&image, runtimes, &live.sandbox, &self.asking()).await;
        let ended = self.sandboxes.end(&entry).await;
        found.and(ended)
    }
}

fn in_words(default: &Limits, ceiling: &Limits) -> BTreeMap<String, String> {
    let seconds = |limits: &Limits| limits.wall_time.as_secs_f64();
    let cpu = |limits: &Limits| limits.cpu_time.as_secs_f64();
    let cores = |limits: &Limits| f64::from(limits.cpu_millis) / 1000.0;
    let mib = |bytes: u64| bytes >> 20;
    let words = [
        ("timeout_s", format!("{} s, at most {} s", seconds(default), seconds(ceiling))),
        ("cpu_time_s", format!("{} s, at most {} s", cpu(default), cpu(ceiling))),
        (
            "memory_mb",
            format!("{} MiB, at most {} MiB", mib(default.memory_bytes), mib(ceiling.memory_bytes)),
        ),
        ("cpus", format!("{}, at most {}", cores(default), cores(ceiling))),
        ("pids", format!("{}, at most {}", default.pids, ceiling.pids)),
        ("output", format!("{} KiB of each stream are kept", default.output_kept_bytes >> 10)),
        ("file", format!("{} MiB for one file", mib(default.file_bytes))),
        ("tmp", format!("{} MiB in /tmp", mib(default.tmp_bytes))),
    ];
    words.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}
