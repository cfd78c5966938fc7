//! The binary `stockade`.

fn main() {}
