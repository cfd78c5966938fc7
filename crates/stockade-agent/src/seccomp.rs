//! The system-call filter: a classic BPF program made from the policy.
//!
//! The kernel runs a new filter once for every number to fill its cache of
//! plain answers, so loading time grows with the number of instructions; and a
//! linear chain costs every later call. Hence a binary search over ranges of
//! numbers with equal answers. Foreign ABIs are killed: their numbers mean
//! other calls.

use libc::{c_long, sock_filter};

mod policy;

use policy::{Checked, Clause, Holds, Test};

/// What happens to one call number.
#[derive(Clone, Copy)]
enum Answer {
    Allow,
    Errno(i32),
    Check(&'static Checked),
}

/// A run of numbers with the same answer, up to the next one's `first`.
struct Range {
    first: u32,
    answer: Answer,
}

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;
/// Bit of the x32 ABI: 64-bit processors, 32-bit pointers, other numbers.
const X32: u32 = 0x4000_0000;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
const ARGS_OFFSET: u32 = 16;

const ALLOW: u32 = 0x7FFF_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL_PROCESS: u32 = 0x8000_0000;

/// The filter, ready to be installed.
pub fn program() -> Vec<sock_filter> {
    let mut code = vec![
        op(LOAD, ARCH_OFFSET),
        jump(JUMP_EQUAL, ARCH, 1, 0),
        op(RETURN, KILL_PROCESS),
        op(LOAD, NUMBER_OFFSET),
        jump(JUMP_GREATER_EQUAL, X32, 0, 1),
        op(RETURN, KILL_PROCESS),
    ];
    code.extend(search(&ranges()));
    code
}

fn answer(number: u32) -> Answer {
    let listed = |list: &[c_long]| list.iter().any(|&listed| listed == c_long::from(number));
    if let Some(checked) = policy::CHECKED.iter().find(|c| c.number == c_long::from(number)) {
        return Answer::Check(checked);
    }
    if listed(policy::ALLOWED) || listed(policy::ALLOWED_LEGACY) {
        return Answer::Allow;
    }
    let known = policy::KNOWN.iter().any(|&(first, last)| (first..=last).contains(&number));
    if known && !listed(policy::ABSENT) {
        return Answer::Errno(libc::EPERM);
    }
    Answer::Errno(libc::ENOSYS)
}

fn ranges() -> Vec<Range> {
    let last = policy::KNOWN.iter().map(|&(_, last)| last).max().unwrap_or(0);
    let mut ranges: Vec<Range> = Vec::new();
    for first in 0..=last + 1 {
        let answer = answer(first);
        let same = match (ranges.last().map(|range| range.answer), answer) {
            (Some(Answer::Allow), Answer::Allow) => true,
            (Some(Answer::Errno(a)), Answer::Errno(b)) => a == b,
            _ => false,
        };
        if !same {
            ranges.push(Range { first, answer });
        }
    }
    ranges
}

/// Code that finds the range of the number in the accumulator and answers.
fn search(ranges: &[Range]) -> Vec<sock_filter> {
    let [range] = ranges else {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let low_code = search(low);
        let mut code = match u8::try_from(low_code.len()) {
            Ok(skip) => vec![jump(JUMP_GREATER_EQUAL, high[0].first, skip, 0)],
            Err(_) => vec![
                jump(JUMP_GREATER_EQUAL, high[0].first, 0, 1),
                op(JUMP, u32::try_from(low_code.len()).unwrap_or(u32::MAX)),
            ],
        };
        code.extend(low_code);
        code.extend(search(high));
        return code;
    };
    match range.answer {
        Answer::Allow => vec![op(RETURN, ALLOW)],
        Answer::Errno(errno) => vec![refuse(errno)],
        Answer::Check(checked) => check(checked),
    }
}

fn check(checked: &Checked) -> Vec<sock_filter> {
    let mut code: Vec<_> = checked.refuse.iter().flat_map(clause).collect();
    code.push(op(RETURN, ALLOW));
    code
}

/// Refuses when every test holds; otherwise falls through to what follows.
fn clause(clause: &Clause) -> Vec<sock_filter> {
    let mut code = vec![refuse(clause.errno)];
    for test in clause.tests.iter().rev() {
        let past_clause = u8::try_from(code.len()).expect("clauses are a few instructions long");
        let mut test_code = self::test(test, past_clause);
        test_code.extend(code);
        code = test_code;
    }
    code
}

/// Falls through when the test holds, skips `otherwise` instructions when not.
fn test(test: &Test, otherwise: u8) -> Vec<sock_filter> {
    let mut code = vec![op(LOAD, ARGS_OFFSET + 8 * test.arg)];
    if test.mask != u32::MAX {
        code.push(op(AND, test.mask));
    }
    let (values, found, missing) = match test.holds {
        Holds::In(values) => (values, 0, otherwise),
        Holds::NotIn(values) => (values, otherwise, 0),
    };
    for (index, &value) in values.iter().enumerate() {
        let left = u8::try_from(values.len() - 1 - index).expect("value lists are short");
        code.push(jump(JUMP_EQUAL, value, left + found, if left == 0 { missing } else { 0 }));
    }
    code
}

fn refuse(errno: i32) -> sock_filter {
    op(RETURN, ERRNO | errno.cast_unsigned())
}

const fn op(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the kernel too looks at the low word only")]
mod tests {
    use super::*;

    /// What the kernel would do, instruction by instruction. Notes which were reached.
    fn run(code: &[sock_filter], data: (u32, u32, [u64; 6]), reached: &mut [bool]) -> u32 {
        let (number, arch, args) = data;
        let (mut at, mut acc) = (0, 0);
        loop {
            reached[at] = true;
            let sock_filter { code: operation, jt, jf, k } = code[at];
            at += 1;
            match operation {
                LOAD if k == NUMBER_OFFSET => acc = number,
                LOAD if k == ARCH_OFFSET => acc = arch,
                LOAD => acc = args[(k - ARGS_OFFSET) as usize / 8] as u32,
                AND => acc &= k,
                JUMP => at += k as usize,
                JUMP_EQUAL => at += usize::from(if acc == k { jt } else { jf }),
                JUMP_GREATER_EQUAL => at += usize::from(if acc >= k { jt } else { jf }),
                RETURN => return k,
                _ => panic!("no such instruction"),
            }
        }
    }

    /// The policy, read straight from the table.
    fn expected(number: u32, args: [u64; 6]) -> u32 {
        match answer(number) {
            Answer::Allow => ALLOW,
            Answer::Errno(errno) => ERRNO | errno.cast_unsigned(),
            Answer::Check(checked) => {
                let holds = |test: &Test| {
                    let word = args[test.arg as usize] as u32 & test.mask;
                    match test.holds {
                        Holds::In(values) => values.contains(&word),
                        Holds::NotIn(values) => !values.contains(&word),
                    }
                };
                let refused = checked.refuse.iter().find(|c| c.tests.iter().all(holds));
                refused.map_or(ALLOW, |clause| ERRNO | clause.errno.cast_unsigned())
            }
        }
    }

    fn edge_words() -> Vec<u64> {
        let mut words: Vec<u64> =
            vec![0, 1, 2, 3, 10, 16, 38, 40, 0xFFFF_FFFF, 1 << 32, 0x8000_0000];
        for clause in policy::CHECKED.iter().flat_map(|checked| checked.refuse) {
            for test in clause.tests {
                let (Holds::In(values) | Holds::NotIn(values)) = test.holds;
                for &value in values {
                    let value = u64::from(value);
                    words.extend([value, value + 1, value | 1 << 32, value | 0x800]);
                }
                words.extend([u64::from(test.mask), u64::from(test.mask) | 1 << 63]);
            }
        }
        words.sort_unstable();
        words.dedup();
        words
    }

    #[test]
    fn the_program_says_what_the_policy_says_and_every_instruction_is_reached() {
        let code = program();
        let mut reached = vec![false; code.len()];
        let words = edge_words();
        for number in 0..=1100 {
            let checked = matches!(answer(number), Answer::Check(_));
            let few = &words[..1];
            let (firsts, others) = if checked { (&words[..], &words[..]) } else { (few, few) };
            for &a in firsts {
                for &b in others {
                    for c in [0, 3, 31] {
                        for args in [[a, b, c, 0, 0, 0], [a, c, b, 0, 0, 0], [c, a, b, 0, 0, 0]] {
                            let got = run(&code, (number, ARCH, args), &mut reached);
                            assert_eq!(got, expected(number, args), "call {number} {args:?}");
                        }
                    }
                }
            }
        }
        for (number, arch) in
            [(0, 0x4000_0003), (0, 0), (X32, ARCH), (X32 | 1, ARCH), (u32::MAX, ARCH)]
        {
            assert_eq!(run(&code, (number, arch, [0; 6]), &mut reached), KILL_PROCESS);
        }
        let missed: Vec<_> = (0..code.len()).filter(|&at| !reached[at]).collect();
        assert!(missed.is_empty(), "instructions never reached: {missed:?} of {}", code.len());
    }

    #[test]
    fn the_filter_stays_short() {
        assert!(program().len() < 400, "{} instructions", program().len());
    }

    #[track_caller]
    fn check_call(number: c_long, args: &[u64], expected: u32) {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        let code = program();
        let mut reached = vec![false; code.len()];
        let number = u32::try_from(number).unwrap();
        assert_eq!(
            run(&code, (number, ARCH, six), &mut reached),
            expected,
            "call {number} {args:?}"
        );
    }

    #[test]
    fn the_calls_that_matter() {
        const EPERM: u32 = ERRNO | libc::EPERM.cast_unsigned();
        const ENOSYS: u32 = ERRNO | libc::ENOSYS.cast_unsigned();
        const NO_FAMILY: u32 = ERRNO | libc::EAFNOSUPPORT.cast_unsigned();
        for call in [
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_mount_setattr,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_init_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
            libc::SYS_pidfd_getfd,
            libc::SYS_clock_settime,
            libc::SYS_syslog,
            libc::SYS_quotactl,
            libc::SYS_fanotify_init,
            libc::SYS_memfd_secret,
            libc::SYS_mbind,
            libc::SYS_kcmp,
        ] {
            check_call(call, &[], EPERM);
        }
        check_call(libc::SYS_clone3, &[], ENOSYS);
        check_call(libc::SYS_io_uring_setup, &[], ENOSYS);
        check_call(335, &[], ENOSYS);
        check_call(999, &[], ENOSYS);
        check_call(libc::SYS_clone, &[0x0100_0000 | 17], ALLOW);
        check_call(libc::SYS_clone, &[0x1000_0000], EPERM);
        check_call(libc::SYS_socket, &[2, 1, 0], ALLOW);
        check_call(libc::SYS_socket, &[2, 3 | 0x80000, 1], EPERM);
        check_call(libc::SYS_socket, &[16, 3 | 0x80000, 0], ALLOW);
        check_call(libc::SYS_socket, &[16, 3, 12], NO_FAMILY);
        check_call(libc::SYS_socket, &[38, 5, 0], NO_FAMILY);
        check_call(libc::SYS_ioctl, &[0, 0x5412 | 1 << 32], EPERM);
        check_call(libc::SYS_ioctl, &[0, 0x5401], ALLOW);
        check_call(libc::SYS_personality, &[0x0040_0000], EPERM);
        check_call(libc::SYS_personality, &[0xFFFF_FFFF], ALLOW);
        check_call(libc::SYS_openat, &[], ALLOW);
    }
}
