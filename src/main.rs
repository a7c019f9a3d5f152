//! The command `capbench`: a thin shell over the library.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = capbench::cli::Cli::parse();
    let exit = capbench::main(cli);
    ExitCode::from(exit as u8)
}
