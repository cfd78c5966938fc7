//! The binary `stockade`.

use std::process::ExitCode;

fn main() -> ExitCode {
    stockade_server::cli::main()
}
