//! One file per subcommand, and the table that names them.
//!
//! A command is a module with `pub struct Args` (derives [`clap::Args`], gives examples in
//! `after_help`) and `pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode>`, plus
//! one variant and one line here. Its heading in `stook --help` is in [`crate::cli::HEADINGS`].

pub mod advise;
pub mod bench;
pub mod cat;
pub mod check;
pub mod compact;
pub mod completions;
pub mod copy;
pub mod get;
pub mod info;
pub mod load;
pub mod ls;
pub mod man;
pub mod mount;
pub mod pack;
pub mod put;
pub mod rm;
pub mod serve;
pub mod stitch;
pub mod study;
pub mod umount;
pub mod unpack;
pub mod verify;

use std::process::ExitCode;

use crate::context::Context;

/// The commands that exist.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Measures storage: reads and writes of a test file, with latencies
    Bench(bench::Args),
    /// Says what is slow about trees and archives, why, and what to run
    Advise(advise::Args),
    /// Measures again what a published study measured
    Study(study::Args),
    /// Packs trees of files; run again, adds only what is new or changed
    Pack(pack::Args),
    /// Writes the files of a pack into a directory
    Unpack(unpack::Args),
    /// Lists the keys of a pack
    Ls(ls::Args),
    /// Shows what is in a pack and in what state it is
    Info(info::Args),
    /// Reads records of a pack, to stdout or into files
    Get(get::Args),
    /// Puts a file, or stdin, into a pack
    Put(put::Args),
    /// Deletes records of a pack
    Rm(rm::Args),
    /// Reads a whole pack at device speed, every checksum verified
    Load(load::Args),
    /// Frees the room of deleted records and restores the order of keys
    Compact(compact::Args),
    /// Looks for damage in a pack
    Check(check::Args),
    /// Writes bytes of a file, a remote object or a record to stdout
    Cat(cat::Args),
    /// Makes a tar or zip of trees without writing it
    Stitch(stitch::Args),
    /// Shows a tree, pack or archive to any program, as a directory
    Mount(mount::Args),
    /// Ends what `stook mount` began
    Umount(umount::Args),
    /// Serves a tree over HTTP: files by range, and as a tar or zip
    Serve(serve::Args),
    /// Copies files and trees to one directory or several, in one read
    Copy(copy::Args),
    /// Verifies trees against their lists, or against another tree
    Verify(verify::Args),
    /// Prints the script that completes commands and options in a shell
    Completions(completions::Args),
    /// Prints the manual page, or writes one page for each command
    Man(man::Args),
}

/// Runs a command.
///
/// # Errors
/// Returns the error that ended it early. Failures of a finished command are an exit code, not an
/// error.
pub fn run(command: Command, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        Command::Bench(args) => bench::run(args, context),
        Command::Advise(args) => advise::run(args, context),
        Command::Study(args) => study::run(args, context),
        Command::Pack(args) => pack::run(args, context),
        Command::Unpack(args) => unpack::run(args, context),
        Command::Ls(args) => ls::run(args, context),
        Command::Info(args) => info::run(args, context),
        Command::Get(args) => get::run(args, context),
        Command::Put(args) => put::run(args, context),
        Command::Rm(args) => rm::run(args, context),
        Command::Load(args) => load::run(args, context),
        Command::Compact(args) => compact::run(args, context),
        Command::Check(args) => check::run(args, context),
        Command::Cat(args) => cat::run(args, context),
        Command::Stitch(args) => stitch::run(args, context),
        Command::Mount(args) => mount::run(args, context),
        Command::Umount(args) => umount::run(args, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Copy(args) => copy::run(args, context),
        Command::Verify(args) => verify::run(args, context),
        Command::Completions(args) => completions::run(&args, context),
        Command::Man(args) => man::run(&args, context),
    }
}
