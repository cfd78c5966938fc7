//! `stockade mcp`: the MCP server on standard input and output.

use std::process::ExitCode;

use stockade_mcp::McpOptions;

use super::block_on;
use crate::config::Config;
use crate::{assembly, logs};

pub(super) fn carry_out(config: &Config) -> anyhow::Result<ExitCode> {
    logs::start(&config.log);
    let backend = assembly::backend(&config.data_dir)?;
    let store = assembly::store(&config.data_dir)?;
    block_on(async {
        let engine = assembly::engine(config, backend, store).await?;
        let options = McpOptions {
            workspace_root: Some(config.data_dir.join("workspaces")),
            ..McpOptions::default()
        };
        let served = tokio::select! {
            served = stockade_mcp::serve_stdio(engine.clone(), options) => served,
            signal = super::serve::stop_signal() => signal,
        };
        // The client is gone: nobody waits for what still runs.
        engine.shutdown(std::time::Duration::ZERO).await;
        served?;
        Ok(ExitCode::SUCCESS)
    })
}
