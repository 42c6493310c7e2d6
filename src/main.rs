//! The program: reads the arguments, runs the server, and returns the exit status.
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
            let commit = option_env!("SOURCE_COMMIT").map(|commit| format!(" ({commit})"));
            let commit = commit.unwrap_or_default();
            println!("tollgate {version}{commit}, {}", config::compiled_in());
        }
        Command::Check(config) => match server::token_file_fault(&config) {
            None => println!("the options are good"),
            Some(fault) => {
                eprintln!("tollgate: --token-file: {fault}");
                return ExitCode::from(2);
            }
        },
        Command::Health(config) => {
            if let Err(error) = server::health(&config) {
                eprintln!("tollgate: {error}");
                return ExitCode::FAILURE;
            }
        }
        Command::Run(config) => {
            if let Err(error) = server::run(&config) {
                eprintln!("tollgate: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
