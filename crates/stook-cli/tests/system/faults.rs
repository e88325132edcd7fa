//! `stook pack`, `unpack` and `copy` on a file system that fails on command: every write, sync,
//! rename in turn, full disks, short reads and writes, and a power cut.
//!
//! A sweep counts the operations of a run first, and lets each n-th of a kind fail then: a sample
//! of them, unless `STOOK_SWEEPS=whole` requests all.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use stook::engine::{Access, Backend, Buffer, EngineOptions, File, Operation as Asked, Request};
use stook::extent::ByteRange;
use stook_testing::fuse::{Fault, FaultMount, Files, Operation, PageCache, Rule, Which};
use stook_testing::sweep::stride;
use tempfile::TempDir;

use super::program::{ended, stook};
use super::trees::noise;

/// Cases of a kind that are tried, where not all are.
const SAMPLED: u64 = 6;

const EIO: Fault = Fault::Errno(5);
const ENOSPC: Fault = Fault::Errno(28);

/// The command that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Pack,
    Unpack,
    Copy,
}

const JOBS: [Job; 3] = [Job::Pack, Job::Unpack, Job::Copy];

/// A directory with what the command takes, to be copied for each case.
struct Template {
    job: Job,
    dir: TempDir,
}

impl Template {
    fn new(job: Job) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        for number in 0..14_usize {
            let folder = tree.join(format!("{}/deep", number % 3));
            fs::create_dir_all(&folder).unwrap();
            let len = if number == 5 { 400_000 } else { number * 700 };
            let path = folder.join(format!("file-{number}"));
            fs::write(&path, noise(number as u64 + 1, len)).unwrap();
            let number = number as u32;
            chown(&path, Some(1000 + number), Some(number)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600 + number)).unwrap();
            setxattr(&path, "user.number", &number.to_le_bytes(), XattrFlags::empty()).unwrap();
        }
        std::os::unix::fs::symlink("0/deep", tree.join("link")).unwrap();
        fs::hard_link(tree.join("1/deep/file-1"), tree.join("again")).unwrap();
        let template = Self { job, dir };
        if job == Job::Unpack {
            let base = template.dir.path();
            let (code, _, stderr) = ended(&mut template.job_at(base, Job::Pack));
            assert_eq!(code, 0, "{stderr}");
        }
        template
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// A copy that a case may spoil.
    fn copied(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        let source = self.dir.path().join(".");
        let status = Command::new("cp").arg("-a").arg(source).arg(copy.path()).status().unwrap();
        assert!(status.success());
        copy
    }

    fn job_at(&self, base: &Path, job: Job) -> Command {
        let path = |name| base.join(name).into_os_string();
        match job {
            Job::Pack => stook(["pack".into(), path("tree"), path("p.stook")]),
            Job::Unpack => stook(["unpack".into(), path("p.stook"), path("out")]),
            Job::Copy => stook(["copy".into(), path("tree"), path("out")]),
        }
    }

    /// How many operations of a kind there are in a run.
    fn count(&self, operation: Operation) -> u64 {
        let base = self.copied();
        let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
        self.run(mount.path());
        mount.counts().get(&operation).copied().unwrap_or_default()
    }

    fn run(&self, base: &Path) -> (i32, String) {
        let (code, stdout, stderr) = ended(&mut self.job_at(base, self.job));
        assert!(!stderr.contains("panicked"), "{stderr}");
        (code, format!("{stdout}{stderr}"))
    }

    /// Whether all that the command makes is there and right; else why not.
    fn all_is_made(&self, base: &Path) -> Result<(), String> {
        let out = match self.job {
            Job::Unpack | Job::Copy => base.join("out"),
            Job::Pack => {
                let checked = ended(&mut stook(["check".as_ref(), base.join("p.stook").as_os_str()]));
                if checked.0 != 0 {
                    return Err(format!("check: {checked:?}"));
                }
                let out = base.join("of pack");
                let unpacked =
                    ended(&mut stook(["unpack".as_ref(), base.join("p.stook").as_os_str(), out.as_os_str()]));
                if unpacked.0 != 0 {
                    return Err(format!("unpack: {unpacked:?}"));
                }
                out
            }
        };
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).args([&self.tree(), &out]);
        let (code, stdout, stderr) = ended(&mut diff);
        if code != 0 {
            return Err(format!("{stdout}{stderr}"));
        }
        let mut wrong = Vec::new();
        each_file(&self.tree(), Path::new(""), &mut |name| {
            wrong.extend(other_attributes(&self.tree().join(name), &out.join(name)));
        });
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    }

    /// What is there under a final name and is not what it should be.
    fn half_made(&self, base: &Path) -> Vec<String> {
        match self.job {
            Job::Unpack | Job::Copy => {
                let mut wrong = Vec::new();
                each_file(&self.tree(), Path::new(""), &mut |name| {
                    let made = base.join("out").join(name);
                    let whole = self.tree().join(name);
                    if made.exists() && fs::read(&made).unwrap() != fs::read(&whole).unwrap() {
                        wrong.push(format!("{} is half-made", name.display()));
                    } else if made.exists() {
                        wrong.extend(other_attributes(&whole, &made));
                    }
                });
                wrong
            }
            Job::Pack => {
                let pack = base.join("p.stook");
                let (code, stdout, stderr) = ended(&mut stook(["check".as_ref(), pack.as_os_str()]));
                // Before the first generation there is no pack yet.
                let is_begun = pack.exists() && !stderr.contains("not a pack") && !stderr.contains("no pack");
                // A pack that is not complete yet is no damage, though `check` ends with 1.
                let is_whole = code == 0 || code == 1 && stdout.contains("no damage");
                if !is_whole && is_begun { vec![format!("check: {stdout}{stderr}")] } else { Vec::new() }
            }
        }
    }
}

/// How mode, time, owner and extended attributes of a file differ from those of another.
fn other_attributes(wanted: &Path, found: &Path) -> Option<String> {
    let of = |path: &Path| {
        let there = fs::metadata(path).unwrap();
        let mut value = [0; 16];
        let xattr = getxattr(path, "user.number", &mut value).map(|len| value[..len].to_vec());
        (there.mode(), there.modified().unwrap(), there.uid(), there.gid(), xattr)
    };
    let (wanted, found_of) = (of(wanted), of(found));
    (wanted != found_of).then(|| format!("{} has {found_of:?}, not {wanted:?}", found.display()))
}

fn each_file(root: &Path, below: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(root.join(below)).unwrap().map(Result::unwrap) {
        let name = below.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            each_file(root, &name, each);
        } else if kind.is_file() {
            each(&name);
        }
    }
}

/// Numbers of operations to try, of this many.
fn tried(count: u64) -> Vec<u64> {
    let step = if stride(2) == 1 { 1 } else { (count / SAMPLED).max(1) };
    (0..count).step_by(usize::try_from(step).unwrap()).collect()
}

/// One case: what is wrong after it.
fn case(template: &Template, page_cache: PageCache, rules: &[Rule]) -> Vec<String> {
    let base = template.copied();
    let mount = FaultMount::mount(base.path(), page_cache).unwrap();
    rules.iter().for_each(|rule| mount.add(rule.clone()));
    let (code, said) = template.run(mount.path());
    let struck = mount.struck();
    mount.heal();
    let mut wrong = template.half_made(mount.path());
    if code == 0
        && let Err(missing) = template.all_is_made(mount.path())
    {
        wrong.push(format!("exit code 0, and {missing}"));
    }
    let fails_sync = |rule: &Rule| {
        matches!(rule.fault, Fault::Errno(_))
            && rule.operations.iter().all(|kind| Operation::SYNCS.contains(kind))
    };
    if code == 0 && struck > 0 && rules.iter().any(fails_sync) {
        wrong.push("exit code 0 after a failed sync".into());
    }
    if code != 0 && (struck == 0 || said.trim().is_empty()) {
        wrong.push(format!("exit code {code} after {struck} faults"));
    }
    let (again, said_again) = template.run(mount.path());
    if again != 0 {
        wrong.push(format!("exit code {again} of the next run: {said_again}"));
    }
    if again == 0
        && let Err(missing) = fresh(template, mount.path())
    {
        wrong.push(format!("after the next run {missing}"));
    }
    mount.unmount().unwrap();
    wrong.into_iter().map(|wrong| format!("{rules:?}: {wrong}\n{said}")).collect()
}

/// As `all_is_made`, where it may have been asked before.
fn fresh(template: &Template, base: &Path) -> Result<(), String> {
    if template.job == Job::Pack && base.join("of pack").exists() {
        fs::remove_dir_all(base.join("of pack")).unwrap();
    }
    template.all_is_made(base)
}

/// What fails, how, and which of them.
type Kind<'a> = (&'a [Operation], Fault, fn(u64) -> Which);

/// Lets each operation of these kinds fail in turn.
fn swept(job: Job, kinds: &[Kind<'_>]) {
    let template = Template::new(job);
    let counts = {
        let base = template.copied();
        let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
        let (code, said) = template.run(mount.path());
        assert_eq!(code, 0, "{said}");
        template.all_is_made(mount.path()).unwrap();
        mount.counts()
    };
    let (mut cases, mut wrong) = (0, Vec::new());
    for &(operations, fault, which) in kinds {
        let count = operations.iter().filter_map(|operation| counts.get(operation)).sum();
        assert!(count > 0, "{operations:?} do not come: {counts:?}");
        for number in tried(count) {
            wrong.extend(case(&template, PageCache::On, &[Rule::of(operations, which(number), fault)]));
            cases += 1;
        }
    }
    println!("{cases} cases of {counts:?}");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_pack_whose_making_fails_at_any_write_sync_or_rename_says_so_and_is_completed_by_the_next_run() {
    let kinds: [Kind<'_>; 5] = [
        (&[Operation::Write], EIO, Which::Nth),
        (&Operation::TAKE_ROOM, ENOSPC, Which::From),
        (&[Operation::Sync], EIO, Which::Nth),
        (&[Operation::SyncDirectory], EIO, Which::Nth),
        (&[Operation::Rename], EIO, Which::Nth),
    ];
    swept(Job::Pack, &kinds);
}

#[test]
fn a_source_that_cannot_be_read_is_reported_and_packed_by_the_next_run() {
    swept(Job::Pack, &[(&[Operation::Read], EIO, Which::Nth), (&[Operation::Open], EIO, Which::Nth)]);
}

#[test]
fn unpacking_that_fails_anywhere_says_so_and_leaves_no_file_half_made() {
    let kinds: [Kind<'_>; 8] = [
        (&[Operation::Write], EIO, Which::Nth),
        (&Operation::TAKE_ROOM, ENOSPC, Which::From),
        (&[Operation::Sync], EIO, Which::Nth),
        (&[Operation::SyncDirectory], EIO, Which::Nth),
        (&[Operation::Rename], EIO, Which::Nth),
        (&[Operation::Create], EIO, Which::Nth),
        (&[Operation::Link], EIO, Which::Nth),
        (&[Operation::MakeDirectory], EIO, Which::Nth),
    ];
    swept(Job::Unpack, &kinds);
}

#[test]
fn a_copy_that_fails_anywhere_on_its_way_out_says_so_and_leaves_no_file_half_made() {
    let names = [Operation::Create, Operation::MakeDirectory, Operation::Link, Operation::Rename];
    let kinds: [Kind<'_>; 5] = [
        (&[Operation::Write], EIO, Which::Nth),
        (&Operation::TAKE_ROOM, ENOSPC, Which::From),
        (&[Operation::SyncDirectory], EIO, Which::Nth),
        (&names, EIO, Which::Nth),
        (&[Operation::SetAttributes], EIO, Which::Nth),
    ];
    swept(Job::Copy, &kinds);
}

#[test]
fn a_source_that_cannot_be_read_is_reported_and_copied_by_the_next_run() {
    let kinds: [Kind<'_>; 2] =
        [(&[Operation::Read], EIO, Which::Nth), (&[Operation::Open, Operation::List], EIO, Which::Nth)];
    swept(Job::Copy, &kinds);
}

/// Copying writes a file anew whose sync failed: it has to be durable then.
#[test]
fn a_copy_whose_sync_fails_is_written_anew_and_outlives_a_power_cut() {
    let template = Template::new(Job::Copy);
    for number in tried(template.count(Operation::Sync)) {
        let base = template.copied();
        let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
        mount.add(Rule::new(Operation::Sync, Which::Nth(number), EIO));
        let (code, said) = template.run(mount.path());
        assert_eq!((code, mount.struck()), (0, 1), "{number}: {said}");
        mount.lose_unsynced().unwrap();
        template.all_is_made(base.path()).unwrap_or_else(|missing| panic!("{number}: {missing}"));
    }
}

/// The bytes are there, and it is said that attributes are not.
#[test]
fn attributes_that_cannot_be_read_are_reported_and_the_bytes_are_copied() {
    let template = Template::new(Job::Copy);
    for number in tried(template.count(Operation::ReadAttributes)) {
        let base = template.copied();
        let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
        mount.add(Rule::new(Operation::ReadAttributes, Which::Nth(number), EIO));
        let (code, said) = template.run(mount.path());
        mount.heal();
        let made = template.all_is_made(mount.path());
        // What the kernel asks by itself is nothing to the program.
        assert!(code == 0 && made.is_ok() || code == 1, "{number}: {made:?} {said}");
        assert!(code == 0 || said.contains("attributes of 1 file or directory"), "{number}: {said}");
        let args = ["tree", "out"].map(|name| mount.path().join(name));
        let again = ended(stook(["copy"]).args(&args).args(["--overwrite", "always"]));
        assert_eq!(again.0, 0, "{number}: {again:?}");
        template.all_is_made(mount.path()).unwrap();
    }
}

#[test]
fn short_reads_short_writes_and_delays_change_nothing() {
    let nap = Fault::Delay(Duration::from_millis(30));
    for job in JOBS {
        let template = Template::new(job);
        for rules in [
            vec![Rule::new(Operation::Read, Which::All, Fault::AtMost(1000))],
            vec![Rule::new(Operation::Write, Which::All, Fault::AtMost(777))],
            vec![
                Rule::new(Operation::Sync, Which::Nth(0), nap),
                Rule::new(Operation::Open, Which::Nth(1), nap),
            ],
        ] {
            let base = template.copied();
            let mount = FaultMount::mount(base.path(), PageCache::Off).unwrap();
            rules.iter().for_each(|rule| mount.add(rule.clone()));
            let (code, said) = template.run(mount.path());
            assert_eq!(code, 0, "{rules:?}: {said}");
            assert!(mount.struck() > 0, "{rules:?}");
            mount.heal();
            template.all_is_made(mount.path()).unwrap();
            mount.unmount().unwrap();
        }
    }
}

#[test]
fn what_was_acknowledged_outlives_a_power_cut() {
    for job in JOBS {
        let template = Template::new(job);
        let base = template.copied();
        let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
        let (code, said) = template.run(mount.path());
        assert_eq!(code, 0, "{said}");
        mount.lose_unsynced().unwrap();
        template.all_is_made(base.path()).unwrap_or_else(|missing| panic!("{job:?}: {missing}"));
    }
}

#[test]
fn a_power_cut_anywhere_leaves_nothing_half_made_and_the_next_run_completes_it() {
    for job in JOBS {
        let template = Template::new(job);
        let count = {
            let base = template.copied();
            let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
            template.run(mount.path());
            let counts = mount.counts();
            Operation::SYNCS.iter().filter_map(|sync| counts.get(sync)).sum()
        };
        for number in tried(count) {
            let base = template.copied();
            let mount = FaultMount::mount(base.path(), PageCache::On).unwrap();
            // From here on nothing reaches the medium, and all is said to be well.
            mount.add(Rule::of(&Operation::SYNCS, Which::From(number), Fault::Ignored));
            template.run(mount.path());
            mount.lose_unsynced().unwrap();
            let half_made = template.half_made(base.path());
            assert!(half_made.is_empty(), "{job:?}, {number} syncs: {half_made:?}");
            let (code, said) = template.run(base.path());
            assert_eq!(code, 0, "{job:?}, {number} syncs: {said}");
            template.all_is_made(base.path()).unwrap();
        }
    }
}

#[test]
fn a_direct_read_across_a_bad_sector_on_fuse_is_never_whole() {
    const LEN: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let content = noise(3, LEN);
    fs::write(dir.path().join("file"), &content).unwrap();
    let mut wrong = Vec::new();
    for page_cache in [PageCache::Off, PageCache::On] {
        let mount = FaultMount::mount(dir.path(), page_cache).unwrap();
        for (backend, access) in [Backend::Auto, Backend::Threads]
            .into_iter()
            .flat_map(|backend| [Access::Direct, Access::Cached].map(|access| (backend, access)))
        {
            for bad in [0, 4 << 10, 200 << 10, 600 << 10, (1 << 20) - 4096] {
                let bad = ByteRange::at(bad, 4096).unwrap();
                let file = Arc::new(File::open(mount.path().join("file")).unwrap());
                // What is not in the page cache is requested.
                assert_eq!(read(&file, backend, access, LEN).unwrap(), content);
                file.drop_cached().unwrap();
                mount.add(Rule {
                    operations: vec![Operation::Read],
                    files: Files::At("file".into()),
                    which: Which::Bytes(bad),
                    fault: EIO,
                });
                let struck = mount.struck();
                // What was read may be returned, up to the bad sector.
                if let Ok(bytes) = read(&file, backend, access, LEN)
                    && (bytes.len() as u64 > bad.start() || bytes != content[..bytes.len()])
                {
                    wrong.push(format!("{page_cache:?}, {backend:?}, {access:?}, {bad:?}: {}", bytes.len()));
                }
                assert!(mount.struck() > struck);
                mount.heal();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reads the start of a file by an engine.
fn read(file: &Arc<File>, backend: Backend, access: Access, len: usize) -> stook::Result<Vec<u8>> {
    let mut engine = EngineOptions { backend, depth: 4 }.build()?;
    let buffer = Buffer::with_capacity(file.span(0, len, access));
    let operation = Asked::Read { offset: 0, len, buffer };
    engine.submit(Request { token: 1, file: file.clone(), access, operation });
    let mut completions = Vec::new();
    engine.reap(1, &mut completions)?;
    let completion = completions.remove(0);
    completion.result.map(|_| completion.buffer.unwrap().data().to_vec())
}
