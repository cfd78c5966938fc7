//! One conformance suite for every backend: what the seam promises, asked of the
//! real thing.
//!
//! A backend passes when `suite(..).await.assert_passed()` does. A `Dialect` says
//! how each behaviour is written where the backend runs; `PosixDialect` does for
//! any image with `sh` and the usual small tools. What depends on a layer of the
//! wall is asked only where the backend claims that layer in full, and is
//! reported as left out otherwise.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::backend::Backend;
use crate::isolation::{Enforcement, Isolation, Layer};

mod bench;
mod dialect;
mod ends;
mod life;
mod limits;
mod output;
mod surroundings;

pub use dialect::{Argv, Dialect, PosixDialect};

use bench::Bench;

/// Longest one case may take.
const CASE_WITHIN: Duration = Duration::from_secs(60);

/// What came out of each case, by name.
#[derive(Debug, Default)]
pub struct Report {
    /// The case holds.
    pub passed: Vec<&'static str>,
    /// It does not, and this is what was seen.
    pub failed: Vec<(&'static str, String)>,
    /// It was not asked, and this is the layer that is missing.
    pub left_out: Vec<(&'static str, Layer)>,
}

impl Report {
    /// Panics with everything that failed. Says what was left out.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.failed.is_empty(), "{self}");
        assert!(!self.passed.is_empty(), "nothing was asked");
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} passed, {} failed", self.passed.len(), self.failed.len())?;
        for (name, why) in &self.failed {
            writeln!(f, "FAILED {name}: {why}")?;
        }
        for (name, layer) in &self.left_out {
            writeln!(f, "left out {name}: {} is not fully enforced here", layer.name())?;
        }
        Ok(())
    }
}

/// What a case saw when it does not hold.
type Held = Result<(), String>;
type Case = for<'a> fn(&'a Bench) -> BoxFuture<'a, Held>;

/// One promise.
struct Promise {
    name: &'static str,
    /// The layer without which it is not made.
    needs: Option<Layer>,
    case: Case,
}

macro_rules! promises {
    ($($module:ident::$case:ident $(needs $layer:ident)?),* $(,)?) => {
        vec![$(Promise {
            name: stringify!($case),
            needs: promises!(@layer $($layer)?),
            case: |bench| Box::pin($module::$case(bench)),
        }),*]
    };
    (@layer) => { None };
    (@layer $layer:ident) => { Some(Layer::$layer) };
}

fn promises() -> Vec<Promise> {
    promises![
        output::streams_are_separate,
        output::all_byte_values_come_through,
        output::much_output_keeps_head_tail_and_count,
        output::lossless_output_is_complete,
        output::stdin_is_closed_by_default,
        output::stdin_is_fed_and_closed,
        output::much_stdin_comes_through,
        ends::every_exit_code_is_reported,
        ends::signals_are_reported,
        ends::a_signal_from_outside_reaches_the_program,
        ends::a_missing_program_is_refused,
        ends::the_wall_limit_ends_the_whole_tree needs Processes,
        ends::a_cancelled_run_ends_with_its_whole_tree needs Processes,
        ends::no_child_survives_its_run needs Processes,
        ends::killing_twice_is_harmless,
        ends::usage_is_plausible,
        surroundings::the_environment_is_exact,
        surroundings::the_working_directory_is_the_wanted_one,
        surroundings::the_workspace_is_shared_and_has_two_names,
        surroundings::program_files_are_there,
        surroundings::one_key_is_one_start,
        surroundings::runs_in_one_sandbox_are_independent,
        limits::too_much_output_is_ended,
        limits::too_much_cpu_time_is_ended needs Cpu,
        limits::too_much_memory_is_ended needs Memory,
        limits::too_many_processes_are_noticed needs Pids,
        life::usage_of_a_sandbox_is_plausible,
        life::destroy_can_be_called_twice,
        life::destroy_ends_what_runs,
        life::nothing_starts_after_destroy,
        life::sandboxes_are_separate,
    ]
}

/// Asks a backend for everything the seam promises. Makes its workspaces below
/// `workspace_root` and removes them again.
pub async fn suite(
    backend: Arc<dyn Backend>,
    dialect: impl Dialect + 'static,
    workspace_root: &Path,
) -> Report {
    let mut report = Report::default();
    let isolation = match backend.probe().await {
        Ok(isolation) => isolation,
        Err(error) => {
            report.failed.push(("probe", error.to_string()));
            return report;
        }
    };
    let bench = Bench::new(backend, Arc::new(dialect), PathBuf::from(workspace_root));
    for promise in promises() {
        if let Some(layer) = promise.needs
            && !is_full(&isolation, layer)
        {
            report.left_out.push((promise.name, layer));
            continue;
        }
        let held = tokio::time::timeout(CASE_WITHIN, (promise.case)(&bench)).await;
        match held.unwrap_or_else(|_| Err(format!("took more than {CASE_WITHIN:?}"))) {
            Ok(()) => report.passed.push(promise.name),
            Err(why) => report.failed.push((promise.name, why)),
        }
        bench.clear().await;
    }
    report
}

fn is_full(isolation: &Isolation, layer: Layer) -> bool {
    matches!(isolation.layers.get(&layer), Some(Enforcement::Full { .. }))
}
