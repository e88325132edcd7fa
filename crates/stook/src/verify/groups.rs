//! Which trees are verified at the same time: those that lie on different disks. Trees of one disk
//! come one after another, so that a disk that rotates is read in order.

use std::collections::BTreeSet;
use std::path::Path;

use super::subject::{Branch, Subject};
use crate::device::Attachment;
use crate::profile::{Class, Profile};
use crate::source::shown;

/// What a tree must not share with another one that is read at the same time.
pub(super) fn shared_by(subject: &Subject) -> BTreeSet<String> {
    let mut shared = places_of(&subject.branch);
    // What several trees are compared with is read for each of them, unless it is slower so.
    let rotates = |branch: &&Branch| branch.lies_in.as_deref().is_some_and(is_rotating);
    if let Some(other) = subject.against.as_ref().filter(rotates) {
        shared.extend(places_of(other));
    }
    shared
}

/// Whether a disk below a path surely rotates.
pub(super) fn is_rotating(path: &Path) -> bool {
    Profile::of_path(path).class == Class::Rotating
}

/// The disks that a tree lies on; where they are not known, what it lies on, or is.
fn places_of(branch: &Branch) -> BTreeSet<String> {
    let Some(path) = &branch.lies_in else {
        let address = shown(&branch.tree.path().to_string_lossy());
        return BTreeSet::from([host_of(&address).to_owned()]);
    };
    let Attachment { disks, device, server, file_system, .. } = Attachment::of(path);
    if !disks.is_empty() {
        return disks.into_iter().map(|disk| disk.name).collect();
    }
    BTreeSet::from([server.or(device).or(file_system).unwrap_or_default()])
}

/// `https://host` of `https://host/a/b`.
fn host_of(address: &str) -> &str {
    let begin = address.find("://").map_or(0, |at| at + 3);
    let end = address.get(begin..).and_then(|rest| rest.find('/')).map(|at| begin + at);
    address.get(..end.unwrap_or(address.len())).unwrap_or_default()
}

/// Positions of trees that share something, directly or through others, in their order.
pub(super) fn groups(shared: &[BTreeSet<String>]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(BTreeSet<&String>, Vec<usize>)> = Vec::new();
    for (at, places) in shared.iter().enumerate() {
        let (mut all, mut members): (BTreeSet<&String>, _) = (places.iter().collect(), vec![at]);
        groups.retain_mut(|(others, their)| {
            let is_apart = others.is_disjoint(&all);
            if !is_apart {
                all.append(others);
                members.append(their);
            }
            is_apart
        });
        members.sort_unstable();
        groups.push((all, members));
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_that_share_a_disk_come_one_after_another_and_others_at_once() {
        let places = |all: &[&[&str]]| -> Vec<BTreeSet<String>> {
            all.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
        };
        assert_eq!(groups(&places(&[&["a"], &["b"], &["a"]])), [vec![1], vec![0, 2]]);
        assert_eq!(groups(&places(&[&["a"], &["b"], &["c"], &["a", "b"]])), [vec![2], vec![0, 1, 3]]);
        assert_eq!(groups(&places(&[&["a"]])), [vec![0]]);
        assert!(groups(&[]).is_empty());
    }

    #[test]
    fn objects_of_one_server_share_it() {
        assert_eq!(host_of("https://host/a/b"), "https://host");
        assert_eq!(host_of("s3://bucket"), "s3://bucket");
        assert_eq!(host_of("memory"), "memory");
    }
}
