//! The copiers that are compared: what each is called, where its program is, how it is run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program, and how it is asked to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copier {
    Stook,
    StookXxh3,
    StookSha256,
    Cp,
    Rsync,
    /// With this many transfers at once.
    Rclone(u32),
    Xcp,
    Fcp,
    Dircopy,
}

impl Copier {
    /// All of them, ours first.
    pub(crate) const ALL: [Self; 10] = [
        Self::Stook,
        Self::StookXxh3,
        Self::StookSha256,
        Self::Cp,
        Self::Rsync,
        Self::Rclone(4),
        Self::Rclone(32),
        Self::Xcp,
        Self::Fcp,
        Self::Dircopy,
    ];

    /// One of each program.
    pub(crate) const PROGRAMS: [Self; 7] =
        [Self::Stook, Self::Cp, Self::Rsync, Self::Rclone(4), Self::Xcp, Self::Fcp, Self::Dircopy];

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stook => "`stook copy`",
            Self::StookXxh3 => "`stook copy --hash xxh3`",
            Self::StookSha256 => "`stook copy --hash sha256`",
            Self::Cp => "`cp -r`",
            Self::Rsync => "`rsync -a`",
            Self::Rclone(4) => "`rclone copy`, 4 transfers",
            Self::Rclone(_) => "`rclone copy`, 32 transfers",
            Self::Xcp => "`xcp -r`",
            Self::Fcp => "`fcp`",
            Self::Dircopy => "`dircopy` (SHA-256)",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Stook | Self::StookXxh3 | Self::StookSha256 => "stook",
            Self::Cp => "cp",
            Self::Rsync => "rsync",
            Self::Rclone(_) => "rclone",
            Self::Xcp => "xcp",
            Self::Fcp => "fcp",
            Self::Dircopy => "dircopy",
        }
    }

    /// Whether it is a way of ours.
    pub(crate) fn is_ours(self) -> bool {
        self.program() == "stook"
    }

    /// Whether it hashes what it copies, for a list or for programs.
    pub(crate) fn hashes(self) -> bool {
        matches!(self, Self::StookXxh3 | Self::StookSha256 | Self::Dircopy)
    }

    /// Whether the destination has to be there before.
    pub(crate) fn wants_destination(self) -> bool {
        self == Self::Dircopy
    }

    /// Whether a file at the top of the destination is a list of its own.
    pub(crate) fn is_own_list(self, name: &str) -> bool {
        self == Self::Dircopy && name.starts_with("shasum.") && name.ends_with(".txt")
    }
}

/// The programs that are there.
#[derive(Debug)]
pub(crate) struct Copiers {
    programs: BTreeMap<&'static str, PathBuf>,
    /// What each says of its version, or that it is left out.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Copiers {
    /// Looks for all programs: those that `scripts/need copiers` builds in this directory, the
    /// others where the system has its commands.
    ///
    /// # Errors
    /// Returns an error if one is missing. Only dircopy may be: it comes from a repository that not
    /// every machine reaches.
    pub(crate) fn find(stook: &Path, tools: &Path) -> anyhow::Result<Self> {
        let (mut programs, mut versions) = (BTreeMap::new(), BTreeMap::new());
        for copier in Copier::PROGRAMS {
            let name = copier.program();
            let path = match copier {
                Copier::Stook => stook.to_path_buf(),
                Copier::Cp | Copier::Rsync | Copier::Rclone(_) => PathBuf::from(name),
                _ => tools.join(name),
            };
            // A name without a directory is looked for by the system, a path from any directory.
            let path = match path.components().count() {
                1 => path,
                _ => path.canonicalize().unwrap_or(path),
            };
            match version(&path) {
                Some(version) => {
                    versions.insert(name.to_owned(), version);
                    programs.insert(name, path);
                }
                None if copier == Copier::Dircopy => {
                    eprintln!("dircopy is left out: there is no {}", path.display());
                    versions.insert(name.to_owned(), "not installed: left out".to_owned());
                }
                None => bail!("cannot run {}: `scripts/need copiers` installs it", path.display()),
            }
        }
        Ok(Self { programs, versions })
    }

    /// Whether the program is there.
    pub(crate) fn has(&self, copier: Copier) -> bool {
        self.programs.contains_key(copier.program())
    }

    /// The command that copies what is in `source` into `destination`, which is not there yet
    /// unless [`Copier::wants_destination`].
    ///
    /// # Errors
    /// Returns an error if the program was left out.
    pub(crate) fn command(
        &self,
        copier: Copier,
        source: &Path,
        destination: &Path,
    ) -> anyhow::Result<Command> {
        let program = self.programs.get(copier.program());
        let mut command = Command::new(program.with_context(|| format!("{} is left out", copier.name()))?);
        match copier {
            Copier::Stook => command.args(["copy", "--quiet"]),
            Copier::StookXxh3 => command.args(["copy", "--quiet", "--hash", "xxh3"]),
            Copier::StookSha256 => command.args(["copy", "--quiet", "--hash", "sha256"]),
            Copier::Cp => command.arg("-r"),
            Copier::Rsync => command.arg("-a"),
            // Nothing of the user's own configuration.
            Copier::Rclone(transfers) => {
                command.args(["copy", "--config", "", "--transfers"]).arg(transfers.to_string())
            }
            Copier::Xcp => command.args(["-r", "--no-progress"]),
            Copier::Fcp => &mut command,
            Copier::Dircopy => command.arg("--input"),
        };
        // Without the slash rsync makes a directory of the source's name.
        let source = if copier == Copier::Rsync { with_slash(source) } else { source.into() };
        command.arg(source);
        if copier == Copier::Dircopy {
            command.arg("--output");
        }
        command.arg(destination);
        // As if nothing had been measured or set here.
        command.env_remove("STOOK_ENGINE").env("STOOK_PROFILE_DIR", "");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }
}

fn with_slash(path: &Path) -> OsString {
    let mut path = path.as_os_str().to_owned();
    path.push("/");
    path
}

/// What a program prints first. Some print their version as an error (fcp).
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    [output.stdout, output.stderr].into_iter().find_map(|text| {
        let text = String::from_utf8(text).ok()?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    })
}
