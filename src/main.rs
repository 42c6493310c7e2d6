//! Arguments in, exit status out.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tollgate::config::{self, Command};
use tollgate::server;

fn main() -> ExitCode {
    let command = match config::parse(std::env::args_os().skip(1), std::env::vars_os()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("tollgate: {error}");
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help => print!("{}", config::help()),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            println!("tollgate {version}, {}", config::compiled_in());
        }
        Command::Check(_) => println!("the options are good"),
        Command::Run(config) => {
            if let Err(error) = server::run(&config) {
                eprintln!("tollgate: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
