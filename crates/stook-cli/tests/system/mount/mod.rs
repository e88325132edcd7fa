//! `stook mount`: what other programs see, and what becomes of mounts that are used, killed and
//! damaged.

mod calls;
mod cargo;
mod chunks;
mod compressed;
mod ends;
mod facts;
mod followed;
mod hidden;
mod java;
mod kept;
mod long;
mod merged;
mod programs;
mod said;
mod sources;
mod stalled;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stook_mount::{Status, status_of};
use tempfile::TempDir;

use crate::program::{ended, stook};

/// A directory with sources and a mountpoint, which is unmounted in the end, whatever happens.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("mnt")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mountpoint(&self) -> PathBuf {
        self.path("mnt")
    }

    /// `stook ARGS…` in it.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        ended(stook(args).current_dir(self.dir.path()))
    }

    /// The same, which succeeds.
    fn stook(&self, args: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {stdout} {stderr}");
        stdout
    }

    /// Mounts at `mnt`.
    fn mount(&self, args: &[&str]) {
        self.stook(&[&["mount"], args, &["mnt"]].concat());
    }

    fn unmount(&self) {
        self.stook(&["umount", "mnt"]);
    }

    fn status(&self) -> Status {
        status_of(&self.mountpoint()).unwrap()
    }

    /// A script in it that succeeds: what it printed.
    fn script(&self, script: &str) -> String {
        // What hangs is a failure of this test, and not of all.
        let mut shell = Command::new("timeout");
        shell
            .args(["--kill-after=5", "120", "bash", "-euo", "pipefail", "-c", script])
            .env("STOOK", env!("CARGO_BIN_EXE_stook"));
        let (code, stdout, stderr) = ended(shell.current_dir(self.dir.path()));
        assert_eq!(code, 0, "{script}: {stdout} {stderr}");
        stdout
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Most tests have unmounted it.
        let _ended = stook(["umount", "--lazy"]).arg(self.mountpoint()).output();
    }
}

/// Whether something is mounted there, whether it answers or not.
fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

/// Waits for what is to happen within ten seconds.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..200 {
        if is() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{what}");
}
