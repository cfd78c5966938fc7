//! What only the resource group knows about runs: memory kills, refused
//! processes, processor time of whole trees.
//!
//! The kernel counts for the sandbox, not for a run. Counts that rose while a
//! run went on are that run's; processor time is shared evenly among the runs
//! that went on at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_agent::launcher::protocol::Figures;
use stockade_core::backend::{Control, EndCause, Exit, ExitStatus};
use stockade_core::outcome::Usage;

/// The runs of one sandbox that go on, and the counts read last.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    going: BTreeMap<u64, Going>,
    last: Figures,
}

#[derive(Debug)]
struct Going {
    control: Option<Arc<dyn Control>>,
    cpu_limit_us: u64,
    cpu_used_us: u64,
    oom_kills: u64,
    pids_refused: u64,
}

impl Runs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run is about to start.
    pub(crate) fn begin(&self, cpu_limit_us: u64) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        let going = Going {
            control: None,
            cpu_limit_us,
            cpu_used_us: 0,
            oom_kills: state.last.oom_kills.unwrap_or(0),
            pids_refused: state.last.pids_refused.unwrap_or(0),
        };
        state.going.insert(number, going);
        number
    }

    /// How to act on a run, once that is known. It may have ended already.
    pub(crate) fn controlled(&self, number: u64, control: &Arc<dyn Control>) {
        if let Some(going) = self.state().going.get_mut(&number) {
            going.control = Some(Arc::clone(control));
        }
    }

    /// A run could not be started.
    pub(crate) fn forget(&self, number: u64) {
        self.state().going.remove(&number);
    }

    /// Whether this run is the only one: then a peak of memory is its own.
    pub(crate) fn is_alone(&self, number: u64) -> bool {
        let state = self.state();
        state.going.len() == 1 && state.going.contains_key(&number)
    }

    pub(crate) fn any(&self) -> bool {
        !self.state().going.is_empty()
    }

    /// How to act on all runs that go on.
    pub(crate) fn controls(&self) -> Vec<Arc<dyn Control>> {
        self.state().going.values().filter_map(|going| going.control.clone()).collect()
    }

    /// Takes new counts. Gives the runs that have used up their processor time.
    pub(crate) fn sample(&self, figures: &Figures) -> Vec<Arc<dyn Control>> {
        let mut state = self.state();
        state.share_cpu(figures);
        state
            .going
            .values()
            .filter(|going| going.cpu_used_us >= going.cpu_limit_us)
            .filter_map(|going| going.control.clone())
            .collect()
    }

    /// A run has ended: completes what the kernel said about it.
    pub(crate) fn end(&self, number: u64, mut exit: Exit, figures: Option<&Figures>) -> Exit {
        let mut state = self.state();
        let Some(figures) = figures else {
            state.going.remove(&number);
            return exit;
        };
        state.share_cpu(figures);
        let Some(going) = state.going.remove(&number) else { return exit };
        exit.usage.peak_memory_bytes = figures.peak.or(exit.usage.peak_memory_bytes);
        if exit.cause.is_none() {
            exit.cause = cause(&exit.status, &going, figures);
        }
        exit
    }
}

impl Runs {
    /// A run whose agent is gone without a word about it. `None` when nothing explains that.
    pub(crate) fn vanished(&self, number: u64, last: Option<&Figures>) -> Option<Exit> {
        let going = self.state().going.remove(&number)?;
        let last = last?;
        let killed = last.oom_kills.unwrap_or(0) > going.oom_kills;
        let usage = Usage { peak_memory_bytes: last.peak, ..Usage::default() };
        let (status, cause) = (ExitStatus::Signal(9), Some(EndCause::Memory));
        killed.then_some(Exit { status, cause, usage })
    }
}

impl State {
    fn share_cpu(&mut self, figures: &Figures) {
        let used = figures.cpu_us.unwrap_or(0).saturating_sub(self.last.cpu_us.unwrap_or(0));
        let runs = u64::try_from(self.going.len()).unwrap_or(u64::MAX).max(1);
        for going in self.going.values_mut() {
            going.cpu_used_us += used / runs;
        }
        self.last = *figures;
    }
}

/// Only a run that went wrong was ended by a limit: a program may well survive
/// that the kernel refused it a process, or killed one of its children.
fn cause(status: &ExitStatus, going: &Going, figures: &Figures) -> Option<EndCause> {
    match status {
        ExitStatus::Code(0) | ExitStatus::Refused(_) => return None,
        ExitStatus::Code(_) | ExitStatus::Signal(_) => {}
    }
    if figures.oom_kills.unwrap_or(0) > going.oom_kills {
        return Some(EndCause::Memory);
    }
    (figures.pids_refused.unwrap_or(0) > going.pids_refused).then_some(EndCause::Pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(oom_kills: u64, pids_refused: u64, cpu_us: u64) -> Figures {
        Figures {
            oom_kills: Some(oom_kills),
            pids_refused: Some(pids_refused),
            cpu_us: Some(cpu_us),
            ..Figures::default()
        }
    }

    #[track_caller]
    fn check(status: ExitStatus, at_end: Figures, expected: Option<EndCause>) {
        let runs = Runs::default();
        runs.sample(&figures(1, 1, 0));
        let number = runs.begin(u64::MAX);
        let exit = Exit { status, cause: None, usage: Usage::default() };
        assert_eq!(runs.end(number, exit, Some(&at_end)).cause, expected);
        assert!(!runs.any());
    }

    #[test]
    fn counts_that_rose_during_a_run_name_the_cause() {
        check(ExitStatus::Signal(9), figures(2, 1, 0), Some(EndCause::Memory));
        check(ExitStatus::Code(1), figures(2, 1, 0), Some(EndCause::Memory));
        check(ExitStatus::Code(0), figures(2, 2, 0), None);
        check(ExitStatus::Signal(9), figures(1, 1, 0), None);
        check(ExitStatus::Code(1), figures(1, 2, 0), Some(EndCause::Pids));
        check(ExitStatus::Refused("x".into()), figures(2, 2, 0), None);
    }

    #[test]
    fn a_run_that_vanished_for_want_of_memory_says_so_and_no_other() {
        for (kills, expected) in [(2, Some(EndCause::Memory)), (1, None)] {
            let runs = Runs::default();
            runs.sample(&figures(1, 1, 0));
            let number = runs.begin(u64::MAX);
            let exit = runs.vanished(number, Some(&figures(kills, 1, 0)));
            assert_eq!(exit.and_then(|exit| exit.cause), expected);
        }
        let runs = Runs::default();
        let number = runs.begin(u64::MAX);
        assert_eq!(runs.vanished(number, None), None);
    }

    #[test]
    fn a_cause_that_is_known_stays() {
        let runs = Runs::default();
        let number = runs.begin(u64::MAX);
        let cause = Some(EndCause::WallTime);
        let exit = Exit { status: ExitStatus::Signal(9), cause, usage: Usage::default() };
        assert_eq!(runs.end(number, exit, Some(&figures(9, 9, 9))).cause, cause);
    }

    #[test]
    fn processor_time_before_a_run_is_not_its_own() {
        let runs = Runs::default();
        runs.sample(&figures(0, 0, 5_000_000));
        let number = runs.begin(1_000_000);
        let used = |runs: &Runs| runs.state().going[&number].cpu_used_us;
        runs.sample(&figures(0, 0, 5_400_000));
        assert_eq!(used(&runs), 400_000);
        runs.begin(1_000_000);
        runs.sample(&figures(0, 0, 5_600_000));
        assert_eq!(used(&runs), 500_000, "two runs share");
    }
}
