//! Benchmarks of Stook side by side with other systems.
//!
//! Everything is measured in turn with its peer (A B A B …), and only the ratios of such pairs
//! count. Raw results are written below `benchmarks/runs/`. Data made for a benchmark is removed at
//! the end.

mod advise;
mod bench;
mod builds;
mod copy;
mod faults;
mod gather;
mod mount;
mod pack;
mod result;
mod sparse;
mod stitch;
mod unpack;
mod verify;

use std::process::ExitCode;

use clap::Parser;

/// Compares Stook with other systems on this machine
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Predicted gains of packing six trees against measured ones
    Advise(advise::Args),
    /// Two builds of `stook` against one another
    Builds(builds::Args),
    /// Packs against loose files, tar, SQLite, LMDB and redb
    Pack(pack::Args),
    /// `stook bench` against fio
    Bench(bench::Args),
    /// Many files read in one pass, against one file with the same bytes
    Gather(gather::Args),
    /// What becomes of data where the file system fails: packs, archivers, copiers, SQLite, LMDB
    Faults(faults::Args),
    /// One of those that are tried, in a process of its own
    #[command(hide = true)]
    FaultStore(faults::store::Args),
    /// Copying, syncs included, against cp, rsync, rclone, xcp, fcp and dircopy
    Copy(copy::Args),
    /// Runs a program and prints the most memory that it had, in KiB
    #[command(hide = true)]
    CopyMemory(copy::memory::Args),
    /// Mounts against ext4, EROFS, squashfs, DwarFS, ratarmount, fuse-zip and archivemount
    Mount(mount::Args),
    /// Unpacking, syncs included, against `tar x` and xcp
    Unpack(unpack::Args),
    /// Verifying by lists, against reading and hashing alone, `sha256sum`, `b3sum` and `xxhsum`
    Verify(verify::Args),
    /// Stitched files: look-ups, opening, gathers, and archives beside tar and zip
    Stitch(stitch::Args),
    /// Opens an archive that is not there, and prints what that took
    #[command(hide = true)]
    StitchOpen(stitch::open::Args),
    /// Sparse files in memory against svfsc, range-cache and rangemap
    Sparse(sparse::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Pack(args) => pack::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Builds(args) => builds::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::CopyMemory(args) => copy::memory::report(&args),
        Command::Faults(args) => faults::run(&args),
        Command::FaultStore(args) => return faults::store::run(&args),
        Command::Gather(args) => gather::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Unpack(args) => unpack::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Stitch(args) => stitch::run(&args),
        Command::StitchOpen(args) => stitch::open::report(&args),
        Command::Sparse(args) => sparse::run(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}
