//! A filter as the kernel runs it: from what a thread may call to a BPF program, which is data.
//!
//! ```text
//!   is this machine's word there? no ─▶ refused
//!   for each rule:  is it this call's number? no ─▶ the next rule
//!                   all tests of one of its ways hold ─▶ allowed, else ─▶ refused
//!   refused
//! ```
//!
//! So the first rule of a call is the one that counts, and what no rule names is refused. Programs
//! only go forward, by at most as many steps as one rule has.

use super::calls::Machine;
use crate::server::sys::confine::Instruction;

/// What a thread may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// By its name in the table of calls.
    pub call: &'static str,
    /// With which arguments: all tests of one of these ways have to hold.
    pub ways: Vec<Vec<Test>>,
}

/// The lower half of an argument, and what it has to be where this mask has ones. The kernel takes
/// no more than the lower half of arguments which are an `int` in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Its place, from 0 to 5.
    pub argument: u8,
    /// Which of its bits count,
    pub mask: u32,
    /// and what they have to be.
    pub value: u32,
}

/// This argument is this number.
pub fn is(argument: u8, value: i32) -> Test {
    masked(argument, u32::MAX, value.cast_unsigned())
}

/// This argument has these bits, of those of the mask.
pub fn masked(argument: u8, mask: u32, value: u32) -> Test {
    Test {
        argument,
        mask,
        value,
    }
}

/// What the filter says of a call (linux/seccomp.h).
pub const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
/// It fails with EPERM.
pub const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
/// It is made, and the kernel's audit log tells of it.
pub const LOGGED: u32 = libc::SECCOMP_RET_LOG;

// Of linux/bpf_common.h: load a word, and its bits, compare, give the verdict.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const IS: u16 = 0x15;
const VERDICT: u16 = 0x06;

// Where things lie in what the kernel hands over (linux/seccomp.h, `seccomp_data`).
const NUMBER_AT: u32 = 0;
const MACHINE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// The program; `refused` is what it says of what no rule allows.
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

/// What is asked of a call once it is known which one it is.
fn body(ways: &[Vec<Test>], refused: u32) -> Vec<Instruction> {
    let mut body = Vec::new();
    for way in ways {
        for (index, test) in way.iter().enumerate() {
            // Each of those behind it has three steps; and the verdict is one.
            let to_next_way = 3 * (way.len() - index - 1) + 1;
            let low_half_at = ARGUMENTS_AT + 8 * u32::from(test.argument);
            body.push(step(LOAD, low_half_at));
            body.push(step(AND, test.mask));
            body.push(skip(test.value, 0, to_next_way as u8));
        }
        body.push(step(VERDICT, ALLOWED));
    }
    // Where a way asks nothing nobody comes here.
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
