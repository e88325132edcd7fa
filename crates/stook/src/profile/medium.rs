//! [`Medium`]: what something lies on: its kind, and what it is recognised by.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::Class;
use crate::device::System;
use crate::source::shown;

/// File systems of other machines, as mounts call them.
const NETWORK: [&str; 18] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "fuse.ceph",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "smb3",
    "smbfs",
];

/// What a file or an object lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Medium {
    class: Class,
    key: Option<String>,
}

impl Medium {
    /// That of a file or directory, with the number of its device.
    pub(super) fn on(path: &Path, device: u64) -> Self {
        let id = rustix::fs::statvfs(path).map_or(0, |stat| stat.f_fsid);
        Self::in_system(&System::here(), path, device, id)
    }

    /// The same, with what `statvfs(3)` calls the file system.
    pub(super) fn in_system(system: &System, path: &Path, device: u64, id: u64) -> Self {
        let mount = system.mount_of(path);
        let kind = mount.as_ref().map_or("", |mount| mount.kind.as_str());
        if let Some(mount) = mount.as_ref().filter(|_| NETWORK.contains(&kind)) {
            return Self { class: Class::Network, key: Some(format!("{kind} {}", shown(&mount.source))) };
        }
        let below = system.below(path, device);
        let class = if below.surely_rotates() { Class::Rotating } else { Class::Local };
        // An id that fits in 32 bits is the number of a device, which is another one after the next
        // start; others are made of the UUID.
        let id = (id > u64::from(u32::MAX)).then(|| format!("{id:016x}"));
        let names = below.lasting_names();
        let names = (!names.is_empty()).then(|| format!("on {}", names.join(", ")));
        let is_known = id.is_some() || names.is_some();
        let kind = (!kind.is_empty()).then(|| kind.to_owned());
        let parts: Vec<String> = [kind, id, names].into_iter().flatten().collect();
        Self { class, key: is_known.then(|| parts.join(" ")) }
    }

    /// That of an object, by its address: the scheme, and the host or bucket.
    pub fn of_address(address: &str) -> Self {
        let shown = shown(address);
        let key = shown.split_once("://").and_then(|(scheme, rest)| {
            let place = rest.split(['/', '?', '#']).next().filter(|place| !place.is_empty())?;
            Some(format!("{}://{}", scheme.to_ascii_lowercase(), place.to_ascii_lowercase()))
        });
        Self { class: Class::Object, key }
    }

    /// That of a file or directory.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn of_path(path: &Path) -> crate::Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| crate::Error::io("look at", path, error))?;
        Ok(Self::on(path, metadata.dev()))
    }

    /// What kind it is.
    pub fn class(&self) -> Class {
        self.class
    }

    /// What it is recognised by, wherever and under whatever name it is found: file system and
    /// devices, or the server. `None` where nothing of that lasts.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}
