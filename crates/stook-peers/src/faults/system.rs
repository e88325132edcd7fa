//! Who is tried: what each is given, how it is run, and how it is judged.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use stook::extent::ByteRange;

use super::store::{ONLY_OLD, Store, Work};
use crate::copy::tools::{Copier, Copiers};
use crate::pack::collect;

/// Where copiers copy to.
const COPIED: &str = "copied";

/// Bytes of a bad sector.
const BLOCK: u64 = 4096;

/// Who is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Pack,
    Unpack,
    Tar,
    Unzip,
    Store(Store),
    Copy(Copier),
}

impl System {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let others = [
            Self::Pack,
            Self::Unpack,
            Self::Tar,
            Self::Unzip,
            Self::Store(Store::Sqlite),
            Self::Store(Store::SqliteExtra),
            Self::Store(Store::Lmdb),
        ];
        others.into_iter().chain(Copier::PROGRAMS.map(Self::Copy))
    }

    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pack => "`stook pack`",
            Self::Unpack => "`stook unpack`",
            Self::Tar => "`tar xf`",
            Self::Unzip => "`unzip`",
            Self::Store(Store::Sqlite) => "SQLite, FULL",
            Self::Store(Store::SqliteExtra) => "SQLite, EXTRA",
            Self::Store(Store::Lmdb) => "LMDB",
            Self::Copy(copier) => copier.name(),
        }
    }

    /// Whether the kernel reads for it, so that a short read is not the system's own to handle:
    /// through a mapping, or by `copy_file_range` (cp, xcp, fcp).
    pub(super) fn lets_the_kernel_read(self) -> bool {
        use Copier::{Cp, Fcp, Xcp};
        matches!(self, Self::Store(Store::Lmdb) | Self::Copy(Cp | Xcp | Fcp))
    }

    /// What it is given, of all that was made.
    fn input(self) -> &'static str {
        match self {
            Self::Pack | Self::Copy(_) => "tree",
            Self::Unpack => "p.stook",
            Self::Tar => "t.tar",
            Self::Unzip => "z.zip",
            Self::Store(store) => store.name(),
        }
    }
}

/// A part of a file of the input that may go bad.
pub(super) struct Block {
    pub(super) file: PathBuf,
    pub(super) range: ByteRange,
}

/// What a run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// All that was to be made, and as it should be.
    All,
    /// Some or none of it; what has its final name is as it should be.
    NothingWrong,
    /// Something half-made or wrong under its final name.
    Wrong,
}

/// Programs, and what was made for them.
pub(super) struct Bench {
    /// `stook`.
    pub(super) stook: PathBuf,
    /// Where the inputs are.
    pub(super) work: PathBuf,
    /// Programs that copy.
    pub(super) copiers: Copiers,
    /// How long a run may take.
    pub(super) patience: Duration,
}

impl Bench {
    /// Makes the inputs.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        let tree = self.work.join("tree");
        for number in 0..16_usize {
            let folder = tree.join(format!("{}/deep", number % 3));
            fs::create_dir_all(&folder)?;
            let len = if number == 5 { 400_000 } else { number * 900 };
            let bytes: Vec<u8> = (0..len).map(|at| ((at * at + number * 7919) >> 4) as u8).collect();
            fs::write(folder.join(format!("file-{number:02}")), bytes)?;
        }
        let path = |name: &str| self.work.join(name);
        let mut pack = self.stook();
        done(pack.arg("pack").args([&tree, &path("p.stook")]))?;
        done(Command::new("tar").arg("-C").arg(&self.work).args(["-cf"]).arg(path("t.tar")).arg("tree"))?;
        done(Command::new("zip").current_dir(&self.work).args(["-qr", "z.zip", "tree"]))?;
        for store in [Store::Sqlite, Store::SqliteExtra, Store::Lmdb] {
            fs::create_dir(path(store.name()))?;
            done(&mut store_command(Work::Make, store, &path(store.name()))?)?;
        }
        Ok(())
    }

    fn stook(&self) -> Command {
        let mut command = Command::new(&self.stook);
        command.env_remove("STOOK_ENGINE").env("STOOK_PROFILE_DIR", "");
        command
    }

    /// An own copy of what a system is given.
    pub(super) fn copy_input(&self, system: System, base: &Path) -> anyhow::Result<()> {
        if matches!(system, System::Copy(copier) if copier.wants_destination()) {
            fs::create_dir(base.join(COPIED))?;
        }
        done(Command::new("cp").arg("-a").arg(self.work.join(system.input())).arg(base))
    }

    /// Runs the system on what lies in a directory, until it ends or is to be killed: how it ended,
    /// or `None` if it did not.
    pub(super) fn run(
        &self,
        system: System,
        base: &Path,
        is_to_die: impl Fn() -> bool,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let path = |name: &str| base.join(name);
        let mut command = match system {
            System::Pack => {
                let mut command = self.stook();
                command.arg("pack").args([path("tree"), path("out.stook")]);
                command
            }
            System::Unpack => {
                let mut command = self.stook();
                command.arg("unpack").args([path("p.stook"), path("tree")]);
                command
            }
            System::Tar => {
                let mut command = Command::new("tar");
                command.arg("-C").arg(base).arg("-xf").arg(path("t.tar"));
                command
            }
            System::Unzip => {
                let mut command = Command::new("unzip");
                command.arg("-q").arg(path("z.zip")).arg("-d").arg(base);
                command
            }
            System::Store(store) => store_command(Work::Put, store, &path(store.name()))?,
            System::Copy(copier) => self.copiers.command(copier, &path("tree"), &path(COPIED))?,
        };
        ended_or_killed(&mut command, self.patience, is_to_die)
    }

    /// Looks at what a run left in a directory, on which nothing fails any more.
    pub(super) fn look(&self, system: System, base: &Path) -> anyhow::Result<Left> {
        match system {
            System::Pack => self.look_at_pack(base),
            System::Unpack | System::Tar | System::Unzip => self.look_at_tree(&base.join("tree")),
            System::Copy(_) => self.look_at_tree(&base.join(COPIED)),
            System::Store(store) => {
                let mut command = store_command(Work::Check, store, &base.join(store.name()))?;
                let code = ended(&mut command, self.patience)?.and_then(|status| status.code());
                Ok(match code {
                    Some(0) => Left::All,
                    Some(code) if code == i32::from(ONLY_OLD) => Left::NothingWrong,
                    _ => Left::Wrong,
                })
            }
        }
    }

    /// All blocks of what a system is given, under the names that they have in a copy.
    pub(super) fn input_blocks(&self, system: System) -> anyhow::Result<Vec<Block>> {
        let input = system.input();
        let mut names = Vec::new();
        match self.work.join(input).is_dir() {
            true => collect(&self.work.join(input), input, &mut names)?,
            false => names.push(input.to_owned()),
        }
        names.sort();
        let mut blocks = Vec::new();
        for name in names {
            let len = fs::symlink_metadata(self.work.join(&name))?.len();
            let ranges = (0..len).step_by(BLOCK as usize).filter_map(|at| ByteRange::at(at, BLOCK));
            blocks.extend(ranges.map(|range| Block { file: PathBuf::from(&name), range }));
        }
        Ok(blocks)
    }

    fn look_at_pack(&self, base: &Path) -> anyhow::Result<Left> {
        let (pack, out) = (base.join("out.stook"), base.join("looked"));
        let succeeds = |command: &mut Command| -> anyhow::Result<bool> {
            Ok(ended(command, self.patience)?.is_some_and(|status| status.success()))
        };
        if !pack.exists() {
            return Ok(Left::NothingWrong);
        }
        // A pack that is not complete is no damage, though `check` ends with 1.
        let checked = self.stook().args(["check", "--json"]).arg(&pack).output()?;
        let report: Option<serde_json::Value> = serde_json::from_slice(&checked.stdout).ok();
        if report.is_some_and(|report| report["damages"].as_array().is_some_and(Vec::is_empty)) {
            let is_unpacked = succeeds(self.stook().arg("unpack").args([&pack, &out]))?;
            let left = self.look_at_tree(&out)?;
            // An incomplete pack is unpacked as far as it goes, and says so.
            return Ok(if left == Left::All && !is_unpacked { Left::Wrong } else { left });
        }
        // Before its first generation it is no pack; the next run begins anew then.
        let has_generation = fs::read_dir(&pack)?
            .collect::<Result<Vec<_>, _>>()?
            .iter()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("manifest-"));
        Ok(if has_generation { Left::Wrong } else { Left::NothingWrong })
    }

    fn look_at_tree(&self, made: &Path) -> anyhow::Result<Left> {
        let tree = self.work.join("tree");
        let mut names = Vec::new();
        collect(&tree, "", &mut names)?;
        let mut left = Left::All;
        for name in names {
            match fs::read(made.join(&name)) {
                Ok(found) if found == fs::read(tree.join(&name))? => {}
                Ok(_) => return Ok(Left::Wrong),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => left = Left::NothingWrong,
                Err(error) => bail!("cannot look at {name}: {error}"),
            }
        }
        Ok(left)
    }
}

/// This program as a child.
fn store_command(work: Work, store: Store, path: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["fault-store", work.name(), store.name()]).arg(path);
    Ok(command)
}

/// Runs a command that must succeed.
fn done(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Runs a command to its end. One that takes longer is killed.
fn ended(command: &mut Command, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
    ended_or_killed(command, patience, || false)
}

fn ended_or_killed(
    command: &mut Command,
    patience: Duration,
    is_to_die: impl Fn() -> bool,
) -> anyhow::Result<Option<ExitStatus>> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own: some are several processes (rsync), which are killed together.
    command.process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let group = Pid::from_child(&child);
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            wait_for(group);
            return Ok(Some(status));
        }
        if is_to_die() {
            return kill(&mut child).map(Some);
        }
        if started.elapsed() > patience {
            kill(&mut child)?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a process and all that it started.
fn kill(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let group = Pid::from_child(child);
    kill_process_group(group, Signal::KILL)?;
    let status = child.wait()?;
    wait_for(group);
    Ok(status)
}

/// Waits until the others of a group are gone, too: they hold files open until then. One that has
/// ended and that its parent does not ask for is in the group for ever.
fn wait_for(group: Pid) {
    let started = Instant::now();
    while test_kill_process_group(group).is_ok() && started.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_program_ends_is_killed_or_is_given_up() {
        let patience = Duration::from_secs(600);
        let ended = ended(&mut Command::new("true"), patience).unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
        let mut sleep = Command::new("sleep");
        sleep.arg("3600");
        let killed = ended_or_killed(&mut sleep, patience, || true).unwrap();
        assert_eq!(killed.and_then(|status| status.signal()), Some(9));
        assert_eq!(ended_or_killed(&mut sleep, Duration::ZERO, || false).unwrap(), None);
    }
}
