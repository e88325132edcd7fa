//! The built program, also as a user other than root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A user and group that own nothing on this machine.
pub(crate) const SOMEBODY: u32 = 54_321;

/// The built program.
pub(crate) fn stook<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stook"));
    command.args(args).env_remove("STOOK_ENGINE").stdin(Stdio::null());
    command
}

/// Exit code, stdout and stderr.
pub(crate) fn ended(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A directory of an ordinary user, with the program in it: only root may enter its build
/// directory.
pub(crate) struct Home {
    dir: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(dir.path(), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_stook"), dir.path().join("stook")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `stook ARGS…` in this directory, as that user.
    pub(crate) fn somebody<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(self.path("stook"));
        command.args(args).current_dir(self.dir.path()).env_remove("STOOK_ENGINE").stdin(Stdio::null());
        command.uid(SOMEBODY).gid(SOMEBODY);
        command
    }

    /// The same as root.
    pub(crate) fn root<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = stook(args);
        command.current_dir(self.dir.path());
        command
    }
}
