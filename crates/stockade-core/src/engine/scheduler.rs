//! Who runs next: a bounded number at once, a bounded queue, and turns by owner.
//!
//! Owners take turns; the runs of one owner go in the order they came. A ticket
//! that is dropped leaves the queue; a slot that is dropped lets the next one in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::id::OwnerId;

/// When a full queue is worth another try, in seconds.
const RETRY_AFTER_S: u64 = 5;

/// Hands out run slots.
#[derive(Debug)]
pub(crate) struct Scheduler {
    slots: u32,
    places: u32,
    turns: Mutex<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    running: u32,
    queued: u32,
    next_ticket: u64,
    /// The owner whose turn it is comes first. No owner is here without a waiting run.
    owners: VecDeque<(OwnerId, VecDeque<Waiting>)>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    grant: oneshot::Sender<Slot>,
}

/// The right to run. Dropping it lets the next run in.
#[derive(Debug)]
pub(crate) struct Slot {
    scheduler: Arc<Scheduler>,
}

/// A place in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Ticket {
    scheduler: Arc<Scheduler>,
    owner: OwnerId,
    ticket: u64,
    granted: oneshot::Receiver<Slot>,
}

impl Scheduler {
    /// `slots` run at once, `places` wait.
    pub(crate) fn new(slots: u32, places: u32) -> Arc<Self> {
        Arc::new(Self { slots: slots.max(1), places, turns: Mutex::default() })
    }

    /// Takes a place, or fails at once when all are taken.
    pub(crate) fn enter(self: &Arc<Self>, owner: &OwnerId) -> Result<Ticket> {
        let (grant, granted) = oneshot::channel();
        let ticket = {
            let mut turns = self.turns();
            if turns.running >= self.slots && turns.queued >= self.places {
                return Err(Error::Exhausted { what: "queue", retry_after_s: RETRY_AFTER_S });
            }
            turns.add(owner, grant)
        };
        self.let_in();
        Ok(Ticket { scheduler: self.clone(), owner: owner.clone(), ticket, granted })
    }

    /// Runs that have a slot, and runs that wait for one.
    pub(crate) fn figures(&self) -> (u32, u32) {
        let turns = self.turns();
        (turns.running, turns.queued)
    }

    fn let_in(self: &Arc<Self>) {
        loop {
            let grant = {
                let mut turns = self.turns();
                if turns.running >= self.slots {
                    return;
                }
                let Some(grant) = turns.take_next() else { return };
                turns.running += 1;
                grant
            };
            // A slot that nobody takes any more is dropped and given to the next.
            let _ = grant.send(Slot { scheduler: self.clone() });
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    fn add(&mut self, owner: &OwnerId, grant: oneshot::Sender<Slot>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queued += 1;
        let waiting = Waiting { ticket, grant };
        match self.owners.iter_mut().find(|(known, _)| known == owner) {
            Some((_, runs)) => runs.push_back(waiting),
            None => self.owners.push_back((owner.clone(), VecDeque::from([waiting]))),
        }
        ticket
    }

    fn take_next(&mut self) -> Option<oneshot::Sender<Slot>> {
        let (owner, mut runs) = self.owners.pop_front()?;
        let next = runs.pop_front();
        if !runs.is_empty() {
            self.owners.push_back((owner, runs));
        }
        self.queued -= u32::from(next.is_some());
        next.map(|waiting| waiting.grant)
    }

    fn leave(&mut self, owner: &OwnerId, ticket: u64) {
        let Some(at) = self.owners.iter().position(|(known, _)| known == owner) else { return };
        let runs = &mut self.owners[at].1;
        let before = runs.len();
        runs.retain(|waiting| waiting.ticket != ticket);
        let left = before - runs.len();
        if runs.is_empty() {
            self.owners.remove(at);
        }
        self.queued -= u32::try_from(left).unwrap_or(0);
    }
}

impl Ticket {
    /// Waits for the turn.
    pub(crate) async fn slot(mut self) -> Option<Slot> {
        (&mut self.granted).await.ok()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.scheduler.turns().leave(&self.owner, self.ticket);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.scheduler.turns().running -= 1;
        self.scheduler.let_in();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> OwnerId {
        OwnerId::of_key(name)
    }

    #[tokio::test]
    async fn owners_take_turns_and_each_keeps_its_order() {
        let scheduler = Scheduler::new(1, 100);
        let first = scheduler.enter(&owner("a")).unwrap().slot().await.unwrap();
        let (order, mut seen) = tokio::sync::mpsc::unbounded_channel();
        for name in ["a1", "a2", "a3", "b1", "b2", "c1"] {
            let ticket = scheduler.enter(&owner(&name[..1])).unwrap();
            let order = order.clone();
            tokio::spawn(async move {
                let _slot = ticket.slot().await.unwrap();
                order.send(name).unwrap();
            });
        }
        drop((first, order));
        let mut got = Vec::new();
        while let Some(name) = seen.recv().await {
            got.push(name);
        }
        assert_eq!(got, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(scheduler.figures(), (0, 0));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let scheduler = Scheduler::new(1, 2);
        let slot = scheduler.enter(&owner("a")).unwrap().slot().await.unwrap();
        let waiting =
            [scheduler.enter(&owner("a")).unwrap(), scheduler.enter(&owner("b")).unwrap()];
        let refused = scheduler.enter(&owner("c"));
        assert!(matches!(refused, Err(Error::Exhausted { what: "queue", .. })));
        drop(waiting);
        assert_eq!(scheduler.figures(), (1, 0));
        scheduler.enter(&owner("c")).unwrap();
        drop(slot);
        assert_eq!(scheduler.figures(), (0, 0));
    }

    #[tokio::test]
    async fn who_leaves_the_queue_is_passed_over() {
        let scheduler = Scheduler::new(1, 10);
        let slot = scheduler.enter(&owner("a")).unwrap().slot().await.unwrap();
        let gone = scheduler.enter(&owner("a")).unwrap();
        let stays = scheduler.enter(&owner("a")).unwrap();
        drop(gone);
        drop(slot);
        assert!(stays.slot().await.is_some());
        assert_eq!(scheduler.figures(), (0, 0));
    }

    #[tokio::test]
    async fn a_granted_slot_that_nobody_takes_goes_on() {
        let scheduler = Scheduler::new(1, 10);
        let granted = scheduler.enter(&owner("a")).unwrap();
        let next = scheduler.enter(&owner("b")).unwrap();
        drop(granted);
        assert!(next.slot().await.is_some());
    }
}
