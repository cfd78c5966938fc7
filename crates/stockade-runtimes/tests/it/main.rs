//! Runs the table's entries and the drivers for real, in a root made of the
//! machine's own `/usr` and the directories that `installed` names.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod inside;
mod javascript;
mod languages;
mod packages;
mod python;
