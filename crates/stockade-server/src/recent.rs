//! What was looked up a moment ago, so that not every request costs a look-up.
//!
//! An answer is as old as the time to live at most: whatever is revoked in the
//! store has its effect within that time.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Answers remembered at once.
const CAPACITY: usize = 4096;

/// Remembers answers for a short time. Bounded: when it is full it forgets.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    time_to_live: Duration,
    answers: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    pub(crate) fn new(time_to_live: Duration) -> Self {
        Self { time_to_live, answers: Mutex::default() }
    }

    /// The answer, unless it is too old.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let answers = self.answers();
        let (since, answer) = answers.get(key)?;
        (since.elapsed() < self.time_to_live).then(|| answer.clone())
    }

    /// Remembers an answer that was asked for at `asked`.
    pub(crate) fn put(&self, key: K, asked: Instant, answer: V) {
        let mut answers = self.answers();
        if answers.len() >= CAPACITY {
            answers.retain(|_, (since, _)| since.elapsed() < self.time_to_live);
        }
        if answers.len() >= CAPACITY {
            answers.clear();
        }
        answers.insert(key, (asked, answer));
    }

    /// Forgets one answer.
    pub(crate) fn forget<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.answers().remove(key);
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_grow_old() {
        let recent = Recent::new(Duration::from_millis(50));
        recent.put("key", Instant::now(), 1);
        assert_eq!(recent.get("key"), Some(1));
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(recent.get("key"), None);
    }

    #[test]
    fn the_number_of_answers_is_bounded() {
        let recent = Recent::new(Duration::from_secs(60));
        for key in 0..3 * CAPACITY {
            recent.put(key, Instant::now(), ());
            assert!(recent.answers().len() <= CAPACITY);
        }
    }
}
