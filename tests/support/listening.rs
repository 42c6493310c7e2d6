//! The program as a process that says where it listens. Tests and benches start it so.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A server that runs until this is dropped.
pub struct Process {
    child: Child,
    pub http: SocketAddr,
}

impl Process {
    /// Starts it and waits until it listens for HTTP.
    pub fn start(program: &str, options: &[&str]) -> Process {
        let mut command = Command::new(program);
        let mut child = command
            .args(options)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let http = lines
            .find_map(|line| {
                line.expect("a line")
                    .strip_prefix("listening http ")
                    .map(|address| address.parse().expect("an address"))
            })
            .expect("it says where it listens");
        // Who does not read on would fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Process { child, http }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
