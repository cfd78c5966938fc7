//! The native backend against the real kernel.
//!
//! What a test needs of the host is declared in `STOCKADE_TEST_HOST`, a comma
//! list of `root`, `user`, `userns`, `landlock`, `cgroup`. Declared but missing
//! fails; a test whose needs are not declared says so and is skipped.

#[cfg(test)]
mod again;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod image;
#[cfg(test)]
mod leaks;
#[cfg(test)]
mod life;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod measure;
#[cfg(test)]
mod place;
#[cfg(test)]
mod walls;
