//! Mounting itself: as root by the system, as another user by `fusermount3`.
//!
//! `fuser` can do so, too, but a session of its own unmounts the *path* when it ends, even where
//! another mount has taken its place by then. So it gets the device alone.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use stook::tree::Kind;

use crate::mountpoint::HELPER;

/// The device by which the kernel asks.
pub(crate) const DEVICE: &str = "/dev/fuse";
/// The names of the file system: `fuse.stook` in the list of the kernel.
const SUBTYPE: &str = "stook";

/// What is mounted.
#[derive(Debug)]
pub(crate) struct Attach<'a> {
    /// An absolute path.
    pub(crate) mountpoint: &'a Path,
    /// What it is called in the list of the kernel.
    pub(crate) source: &'a str,
    /// Whether it is a directory or a file.
    pub(crate) kind: Kind,
    pub(crate) allow_other: bool,
    pub(crate) no_exec: bool,
}

impl Attach<'_> {
    /// Mounts, and returns the device that the kernel asks by.
    pub(crate) fn mount(&self) -> io::Result<OwnedFd> {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        match self.by_system(&device) {
            Ok(()) => Ok(device.into()),
            Err(Errno::PERM) => self.by_helper(),
            Err(error) => Err(error.into()),
        }
    }

    /// A name without what would begin another option.
    fn name(&self) -> String {
        self.source.replace([',', '\n', '\\', '\0'], "_")
    }

    fn by_system(&self, device: &File) -> Result<(), Errno> {
        let mode = if self.kind == Kind::Directory { "40000" } else { "100000" };
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let mut options = format!(
            "fd={},rootmode={mode},user_id={user},group_id={group},default_permissions,subtype={SUBTYPE}",
            device.as_raw_fd()
        );
        if self.allow_other {
            options.push_str(",allow_other");
        }
        let mut flags = MountFlags::RDONLY | MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
        if self.no_exec {
            flags |= MountFlags::NOEXEC;
        }
        let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
        mount(self.name(), self.mountpoint, "fuse", flags, options.as_c_str())
    }

    /// The helper mounts, and sends the device through a socket, which is its stdin.
    fn by_helper(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut options =
            format!("ro,noatime,nosuid,nodev,default_permissions,fsname={},subtype={SUBTYPE}", self.name());
        if self.allow_other {
            options.push_str(",allow_other");
        }
        if self.no_exec {
            options.push_str(",noexec");
        }
        let helper = Command::new(HELPER)
            .arg("-o")
            .arg(options)
            .arg("--")
            .arg(self.mountpoint)
            .env("_FUSE_COMMFD", "0")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let device = received(&ours);
        let output = helper.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match device? {
            Some(device) if output.status.success() => Ok(device),
            _ if said.is_empty() => Err(io::Error::other(format!("{HELPER} ended without mounting"))),
            _ => Err(io::Error::other(said)),
        }
    }
}

/// The descriptor that comes through a socket; `None` if it ends without.
fn received(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut messages = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut messages, RecvFlags::CMSG_CLOEXEC)?;
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut descriptors = messages.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptors.next())
}
