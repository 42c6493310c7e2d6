//! Compiles the rules for a thread into a BPF program, which the kernel runs as a filter.
//!
//! ```text
//! is the machine ours? no ─▶ refused
//! for each rule:  is the call its call? no ─▶ the next rule
//! do all tests of one way hold? yes ─▶ allowed, no ─▶ refused
//! refused
//! ```
//!
//! The first rule of a call counts, and calls without a rule are refused. Jumps only go forward, at
//! most by the length of one rule.

use super::calls::Machine;
use crate::server::sys::confine::Instruction;

/// A system call that a thread may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in the table of calls.
    pub call: &'static str,
    /// Allowed arguments: all tests of at least one way must hold.
    pub ways: Vec<Vec<Test>>,
}

/// A test of the lower half of an argument. The kernel uses only the lower half of an argument that
/// is an `int` in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Number of the argument, 0 to 5.
    pub argument: u8,
    /// Bits that count.
    pub mask: u32,
    /// Value that these bits must have.
    pub value: u32,
}

/// The argument equals a number.
pub fn is(argument: u8, value: i32) -> Test {
    masked(argument, u32::MAX, value.cast_unsigned())
}

/// The bits of the argument in `mask` equal `value`.
pub fn masked(argument: u8, mask: u32, value: u32) -> Test {
    Test {
        argument,
        mask,
        value,
    }
}

/// Verdict: the call is made (linux/seccomp.h).
pub const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
/// Verdict: the call fails with EPERM.
pub const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
/// Verdict: the call is made, and the kernel's audit log lists it.
pub const LOGGED: u32 = libc::SECCOMP_RET_LOG;

// Operations from linux/bpf_common.h: load, mask, compare, return a verdict.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const IS: u16 = 0x15;
const VERDICT: u16 = 0x06;

// Offsets in the data of a call (linux/seccomp.h, `seccomp_data`).
const NUMBER_AT: u32 = 0;
const MACHINE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// Returns the program. `refused` is the verdict for calls that no rule allows.
pub fn assemble(machine: Machine, rules: &[Rule], refused: u32) -> Vec<Instruction> {
    let mut program = vec![
        step(LOAD, MACHINE_AT),
        skip(machine.word(), 1, 0),
        step(VERDICT, refused),
        step(LOAD, NUMBER_AT),
    ];
    for rule in rules {
        let Some(number) = machine.number(rule.call) else {
            continue;
        };
        let body = body(&rule.ways, refused);
        program.push(skip(number, 0, body.len() as u8));
        program.extend(body);
    }
    program.push(step(VERDICT, refused));
    program
}

/// Returns the tests of a call's arguments.
fn body(ways: &[Vec<Test>], refused: u32) -> Vec<Instruction> {
    let mut body = Vec::new();
    for way in ways {
        for (index, test) in way.iter().enumerate() {
            // Each remaining test has three instructions, and the verdict one.
            let to_next_way = 3 * (way.len() - index - 1) + 1;
            let low_half_at = ARGUMENTS_AT + 8 * u32::from(test.argument);
            body.push(step(LOAD, low_half_at));
            body.push(step(AND, test.mask));
            body.push(skip(test.value, 0, to_next_way as u8));
        }
        body.push(step(VERDICT, ALLOWED));
    }
    // A way without tests always allows the call, so that this is never reached.
    if ways.iter().all(|way| !way.is_empty()) {
        body.push(step(VERDICT, refused));
    }
    body
}

fn step(code: u16, number: u32) -> Instruction {
    Instruction {
        code,
        if_so: 0,
        if_not: 0,
        number,
    }
}

fn skip(number: u32, if_so: u8, if_not: u8) -> Instruction {
    Instruction {
        code: IS,
        if_so,
        if_not,
        number,
    }
}
