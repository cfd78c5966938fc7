//! Who a sandbox is on the machine: user and group ids, and their maps.
//!
//! Started as root, the launcher gives each sandbox two ids of a reserved
//! range: one for its agent, one for its programs. No two live sandboxes share
//! an id, so even a process that got out would meet nothing of its own kind.
//! An ordinary user has one id to give, its own.

use std::fs;
use std::os::fd::OwnedFd;

use super::failure::{Doing, refuse};
use super::pipe;
use super::protocol::Failure;
use crate::sys;

/// User and group id of programs inside every sandbox.
pub(crate) const INSIDE: u32 = 1000;

/// Lowest id that is nobody else's by custom.
const LOWEST: u32 = 10_000;

/// What the launcher may give.
#[derive(Debug)]
pub(crate) enum Identities {
    /// A range of ids, two for each place.
    Reserved(Range),
    /// The ids of the user who started it.
    Own { uid: u32, gid: u32 },
}

/// Reserved ids.
#[derive(Debug)]
pub(crate) struct Range {
    base: u32,
    taken: Vec<bool>,
    /// For each place, the namespace that maps its programs' id to the server's on disk.
    mappers: Vec<Option<OwnedFd>>,
    /// Who owns workspaces on disk.
    server: (u32, u32),
}

/// The identity of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Of its own: the place in the range.
    Place(usize),
    /// The ordinary user's.
    Shared,
}

impl Identities {
    /// For a launcher with the machine's root.
    pub(crate) fn reserved(base: u32, places: u32, server: (u32, u32)) -> Self {
        let places = places as usize;
        let mappers = (0..places).map(|_| None).collect();
        Self::Reserved(Range { base, taken: vec![false; places], mappers, server })
    }

    /// Takes an identity that no live sandbox has.
    pub(crate) fn take(&mut self) -> Result<Identity, Failure> {
        let Self::Reserved(range) = self else { return Ok(Identity::Shared) };
        match range.taken.iter().position(|taken| !taken) {
            Some(place) => {
                range.taken[place] = true;
                Ok(Identity::Place(place))
            }
            None => refuse("all reserved user ids are taken by live sandboxes"),
        }
    }

    /// Gives an identity back once nothing of its sandbox is left.
    pub(crate) fn give_back(&mut self, identity: Identity) {
        if let (Self::Reserved(range), Identity::Place(place)) = (self, identity) {
            range.taken[place] = false;
        }
    }

    /// Writes the maps of a new child's user namespace.
    pub(crate) fn map(&self, identity: Identity, pid: i32) -> Result<(), Failure> {
        let (uids, gids) = match (self, identity) {
            (Self::Reserved(range), Identity::Place(place)) => {
                let (agent, programs) = range.ids(place);
                let map = format!("0 {agent} 1\n{INSIDE} {programs} 1\n");
                (map.clone(), map)
            }
            (Self::Own { uid, gid }, _) => {
                (format!("{INSIDE} {uid} 1\n"), format!("{INSIDE} {gid} 1\n"))
            }
            (Self::Reserved(_), Identity::Shared) => return refuse("an identity of another kind"),
        };
        write_maps(pid, &uids, &gids, matches!(self, Self::Own { .. }))
    }

    /// The user namespace through which a workspace is mounted, so that its files
    /// belong to the server on disk and to the sandbox's programs inside. `None`
    /// where both are the same user.
    pub(crate) fn mapper(&mut self, identity: Identity) -> Result<Option<&OwnedFd>, Failure> {
        let (Self::Reserved(range), Identity::Place(place)) = (self, identity) else {
            return Ok(None);
        };
        if range.mappers[place].is_none() {
            range.mappers[place] = Some(range.make_mapper(place)?);
        }
        Ok(range.mappers[place].as_ref())
    }

    /// The user and group that a workspace must belong to where owners cannot be mapped.
    pub(crate) fn programs(&self, identity: Identity) -> Option<u32> {
        match (self, identity) {
            (Self::Reserved(range), Identity::Place(place)) => Some(range.ids(place).1),
            _ => None,
        }
    }
}

impl Range {
    fn ids(&self, place: usize) -> (u32, u32) {
        let first = self.base + 2 * u32::try_from(place).unwrap_or(0);
        (first, first + 1)
    }

    fn make_mapper(&self, place: usize) -> Result<OwnedFd, Failure> {
        let (_, programs) = self.ids(place);
        let (uid, gid) = self.server;
        let (parent, child) = pipe::pair()?;
        match sys::clone3(libc::CLONE_NEWUSER, None).doing("making a user namespace")? {
            sys::Forked::Child => {
                drop(parent);
                let mut child = child;
                // Nobody opens this gate: it ends when the parent drops its side.
                let _ = child.wait_at_gate();
                sys::exit_now(0)
            }
            sys::Forked::Parent { pid, .. } => {
                let maps = [format!("{uid} {programs} 1\n"), format!("{gid} {programs} 1\n")];
                let namespace = write_maps(pid, &maps[0], &maps[1], false).and_then(|()| {
                    fs::File::open(format!("/proc/{pid}/ns/user")).doing("opening a user namespace")
                });
                drop((parent, child));
                let _ = sys::wait(pid, true);
                namespace.map(OwnedFd::from)
            }
        }
    }
}

/// Where the ids of one launcher begin: at its place in the wanted range, or, in a
/// container whose own namespace does not map that, as far below the end of what it maps.
pub(crate) fn first_id(
    maps: [&str; 2],
    wanted: u32,
    offset: u32,
    ids: u32,
) -> Result<u32, Failure> {
    let ranges = maps.map(longest);
    let holds = |first: u64| {
        let last = first + u64::from(ids);
        ranges.iter().all(|&(begin, end)| begin <= first && last <= end)
    };
    let (end, [offset, ids, wanted]) =
        (ranges[0].1.min(ranges[1].1), [offset, ids, wanted].map(u64::from));
    let first = match holds(wanted + offset) {
        true => wanted + offset,
        false => end.saturating_sub(offset + ids),
    };
    match u32::try_from(first) {
        // Ids below belong to the container's own users.
        Ok(first) if holds(first.into()) && first >= LOWEST => Ok(first),
        _ => refuse(format!(
            "this user namespace maps too few ids: give it {} more, or run as an ordinary user",
            offset + ids
        )),
    }
}

/// The longest run of ids in a map, and the id behind it.
fn longest(map: &str) -> (u64, u64) {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (begin, _, length) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some((begin, begin + length))
    });
    ranges.max_by_key(|(begin, end)| end - begin).unwrap_or_default()
}

/// Writes the maps of a process's user namespace.
pub(crate) fn write_maps(
    pid: i32,
    uids: &str,
    gids: &str,
    forgo_groups: bool,
) -> Result<(), Failure> {
    let write = |file: &str, text: &str| {
        fs::write(format!("/proc/{pid}/{file}"), text).doing("mapping users and groups")
    };
    if forgo_groups {
        // The kernel asks this of whoever has no right to change groups.
        write("setgroups", "deny")?;
    }
    write("uid_map", uids)?;
    write("gid_map", gids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(map: &str, offset: u32, expected: Option<u32>) {
        assert_eq!(first_id([map, map], 0x7000_0000, offset, 2048).ok(), expected, "{map:?}");
    }

    #[test]
    fn ids_come_from_what_is_mapped() {
        check("0 0 4294967295\n", 0, Some(0x7000_0000));
        check("0 0 4294967295\n", 4096, Some(0x7000_0000 + 4096));
        check("0 100000 65536\n", 0, Some(65536 - 2048));
        check("0 1000 1\n1 100000 65536\n", 2048, Some(65537 - 4096));
        check("0 1000 1\n", 0, None);
        check("", 0, None);
    }

    #[test]
    fn no_two_live_sandboxes_share_an_identity() {
        let mut identities = Identities::reserved(1 << 20, 2, (0, 0));
        let (a, b) = (identities.take().unwrap(), identities.take().unwrap());
        assert_ne!(a, b);
        assert!(identities.take().is_err());
        identities.give_back(a);
        assert_eq!(identities.take().unwrap(), a);
    }
}
