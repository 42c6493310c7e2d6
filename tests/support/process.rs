//! What the kernel tells about a process: its memory, its descriptors, the time it has used.

use std::fs;
use std::process::Command;

/// Resident memory in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    let number = line.split_whitespace().next().expect("a number of KiB");
    number.parse().expect("a number of KiB")
}

/// Clock ticks (a hundredth of a second each) of CPU that were used, in user space and in the
/// kernel.
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let (_, after_name) = stat.rsplit_once(')').expect("the name in parentheses");
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // Fields 14 and 15 of proc_pid_stat(5); the first of these here is field 3.
    [fields[11], fields[12]]
        .iter()
        .map(|field| field.parse::<u64>().expect("a number of ticks"))
        .sum()
}

/// How many descriptors are open.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the process runs")
        .count()
}

/// Sends a signal, such as `TERM`.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.expect("kill runs").success());
}

/// Whether all of its threads have been stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let mut tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    tasks.all(|task| {
        let status = task.expect("an entry").path().join("status");
        fs::read_to_string(status).is_ok_and(|status| status.contains("\nState:\tT"))
    })
}
