//! What lists say, as one.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use super::lists::{ListFile, ListReport};
use super::own::{digest_of, folder_of, history, shown};
use crate::error::chain;
use crate::format::mhl::{MhlError, MhlFile, MhlItem, MhlReader, MhlReference};
use crate::format::sums::{SumsReader, file_of_name, is_own_list_name, kind_of_name};
use crate::hash::{Digest, HashKind};
use crate::names::{Patterns, Selection, pattern_below};
use crate::tree::descent::joined;
use crate::tree::find_below;
use crate::tree::history::expected;
use crate::verify::{Branch, Expected, ExpectedBuilder};

/// Paths with backslashes that are looked for, to find out what these mean.
const SAMPLES_MAX: usize = 100;

/// Lines between two questions whether to go on.
const LINES_PER_LOOK: u64 = 4096;

/// Folders of ASC MHLs in one tree, at most.
const FOLDERS_MAX: usize = 10_000;

/// What lists say.
#[derive(Debug, Default)]
pub(super) struct ReadLists {
    pub(super) expected: Expected,
    pub(super) reports: Vec<ListReport>,
    /// The folders of ASC MHLs of directories in the tree.
    pub(super) folders: BTreeSet<Vec<u8>>,
    /// What an ASC MHL leaves out.
    pub(super) ignored: Selection,
}

/// Reads lists of a tree, and those that they refer to. `go_on` is asked now and then; `None` where
/// it ended that.
pub(super) fn read(
    branch: &Branch,
    lists: Vec<ListFile>,
    subject: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<ReadLists> {
    said(Reading::new(branch, lists, go_on), subject)
}

/// The same of those lists that may say what is repaired: of a history none, while its chain does
/// not vouch for all of them, or while a list that refers to it has another hash of one. That is
/// reported all the same.
pub(super) fn vouched(
    branch: &Branch,
    lists: Vec<ListFile>,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<ReadLists> {
    said(Reading { only_vouched: true, ..Reading::new(branch, lists, go_on) }, 0)
}

fn said(mut reading: Reading<'_>, subject: usize) -> Option<ReadLists> {
    reading.run()?;
    let branch = reading.branch;
    let Reading { builder, mut reports, folders, ignored, .. } = reading;
    reports.sort_by(|one, other| (one.date_ns, &one.path).cmp(&(other.date_ns, &other.path)));
    for report in &mut reports {
        (report.subject, report.tree) = (subject, branch.path());
    }
    // One that is no pattern leaves nothing out.
    let patterns = ignored.into_iter().filter(|text| Patterns::new([text]).is_ok());
    let ignored = Patterns::new(patterns).map(|patterns| Selection::of(Patterns::default(), patterns));
    let ignored = ignored.unwrap_or_default();
    Some(ReadLists { expected: builder.finish(), reports, folders, ignored })
}

/// What the lists of a tree say with BLAKE3, whatever newer ones say without it: the proofs of
/// files are by that.
pub(super) fn proven(
    branch: &Branch,
    lists: Vec<ListFile>,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Expected> {
    let mut reading = Reading { only: Some(HashKind::Blake3), ..Reading::new(branch, lists, go_on) };
    reading.run()?;
    Some(reading.builder.finish())
}

struct Reading<'b> {
    branch: &'b Branch,
    /// The only function whose digests are taken.
    only: Option<HashKind>,
    /// Whether lists of a history are read only if that is vouched for.
    only_vouched: bool,
    builder: ExpectedBuilder,
    waiting: VecDeque<ListFile>,
    reports: Vec<ListReport>,
    folders: BTreeSet<Vec<u8>>,
    /// Directories of whose histories a list is not what one that refers to it has the hash of.
    belied: BTreeSet<Vec<u8>>,
    ignored: BTreeSet<String>,
    go_on: Ask<'b>,
    /// Lines of all lists so far.
    lines: u64,
}

/// Who is asked whether to go on: for each line, and by what reads the bytes.
type Ask<'a> = Rc<RefCell<&'a mut dyn FnMut() -> bool>>;

/// Bytes of a list between two questions whether to go on: a line may have no end.
const BYTES_PER_LOOK: u64 = 4 << 20;

/// The bytes of a list, which end with an error where the caller wants no more.
struct Asking<'a> {
    bytes: Box<dyn BufRead>,
    go_on: Ask<'a>,
    /// Bytes since it was asked last.
    since: u64,
}

impl Read for Asking<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Asking<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.since >= BYTES_PER_LOOK {
            self.since = 0;
            if !(self.go_on.borrow_mut())() {
                // `Interrupted` itself would be tried again.
                return Err(io::Error::other("it was interrupted"));
            }
        }
        self.bytes.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.since = self.since.saturating_add(count as u64);
        self.bytes.consume(count);
    }
}

/// Paths that may be those of DOS.
#[derive(Debug, Default)]
struct Separators {
    /// Whether backslashes are taken for what separates names.
    is_dos: bool,
    /// Paths with backslashes, as they would be without that.
    samples: Vec<Vec<u8>>,
}

impl<'b> Reading<'b> {
    fn new(branch: &'b Branch, lists: Vec<ListFile>, go_on: &'b mut dyn FnMut() -> bool) -> Self {
        Self {
            branch,
            only: None,
            only_vouched: false,
            builder: Expected::builder(),
            waiting: lists.into(),
            reports: Vec::new(),
            folders: BTreeSet::new(),
            belied: BTreeSet::new(),
            ignored: BTreeSet::new(),
            go_on: Rc::new(RefCell::new(go_on)),
            lines: 0,
        }
    }

    /// `None` where `go_on` ended it.
    fn run(&mut self) -> Option<()> {
        while let Some(list) = self.waiting.pop_front() {
            let is_vouched = list.is_vouched && !(list.is_mhl() && self.belied.contains(&list.below));
            if self.only_vouched && !is_vouched {
                continue;
            }
            let report = self.read(&list);
            self.reports.push(report);
            if !(self.go_on.borrow_mut())() {
                return None;
            }
        }
        Some(())
    }

    fn read(&mut self, list: &ListFile) -> ListReport {
        let mark = self.builder.mark();
        let (report, mut separators, may_be_dos) = self.read_once(list, Separators::default());
        let is_there = |path: &Vec<u8>| matches!(self.branch.find(path), Ok(Some(_)));
        if !may_be_dos || !list.is_lasting() || separators.samples.iter().any(is_there) {
            return report;
        }
        self.builder.cut_back(mark);
        separators.is_dos = true;
        self.read_once(list, separators).0
    }

    /// What became of a list, and whether its paths may be those of DOS.
    fn read_once(&mut self, list: &ListFile, mut separators: Separators) -> (ListReport, Separators, bool) {
        let mut report = ListReport { date_ns: list.date_ns, ..ListReport::new(list.path.clone()) };
        report.is_dos = separators.is_dos;
        report.is_of_future = list.is_of_future();
        let may_be_dos = match list.is_mhl() {
            true => self.read_mhl(list, &mut separators, &mut report),
            false => self.read_sums(list, &mut separators, &mut report),
        };
        (report, separators, may_be_dos)
    }

    fn asking(&self, bytes: Box<dyn BufRead>) -> Asking<'b> {
        Asking { bytes, go_on: self.go_on.clone(), since: 0 }
    }

    /// Whether another line is wanted.
    fn goes_on(&mut self) -> bool {
        self.lines += 1;
        !self.lines.is_multiple_of(LINES_PER_LOOK) || (self.go_on.borrow_mut())()
    }

    fn read_sums(&mut self, list: &ListFile, separators: &mut Separators, report: &mut ListReport) -> bool {
        let input = match list.open() {
            Ok(input) => input,
            Err(error) => {
                report.add(None, chain(&error));
                return false;
            }
        };
        let reader = SumsReader::new(self.asking(input), kind_of_name(&list.name));
        let mut reader = reader.of_file(file_of_name(&list.name));
        while self.goes_on() {
            let line = match reader.next_line() {
                Ok(None) => break,
                Ok(Some(Ok(line))) => line,
                Ok(Some(Err(bad))) => {
                    report.add(Some(bad.number), bad.fault);
                    continue;
                }
                Err(error) => {
                    report.add(None, chain(&error));
                    break;
                }
            };
            match separators.path(line.path, line.dos_path) {
                Ok(path) => self.add(list, &path, None, &line.digests, report),
                Err(fault) => report.add(Some(line.number), fault),
            }
        }
        let is_own = is_own_list_name(&list.name);
        if is_own && reader.is_empty() && report.bad_lines == 0 {
            report.add(None, "it is cut short: it is empty, and a list gets its name with its first line");
        } else if is_own && !reader.ended() {
            report.add(None, "it is cut short: its last line has no end");
        }
        // Those that are written here have a backslash only where a name has one.
        reader.looks_like_dos() && !is_own
    }

    fn add(
        &mut self,
        list: &ListFile,
        path: &[u8],
        len: Option<u64>,
        one_of: &[Digest],
        report: &mut ListReport,
    ) {
        let one_of = match self.only {
            None => one_of,
            Some(only) => match one_of.iter().find(|digest| digest.kind == only) {
                Some(digest) => std::slice::from_ref(digest),
                None => return,
            },
        };
        self.builder.add(&joined(&list.below, path), list.date_ns, len, one_of);
        report.lines += 1;
    }

    fn read_mhl(&mut self, list: &ListFile, separators: &mut Separators, report: &mut ListReport) -> bool {
        let mut reader = match list.open() {
            Ok(input) => MhlReader::new(self.asking(input)),
            Err(error) => {
                report.add(None, chain(&error));
                return false;
            }
        };
        while self.goes_on() {
            match reader.next_item() {
                Ok(None) => break,
                Ok(Some(Ok(MhlItem::File(file)))) => self.mhl_file(list, file, separators, report),
                Ok(Some(Ok(MhlItem::Reference(reference)))) => self.refer(list, &reference, report),
                Ok(Some(Ok(MhlItem::Head(head)))) => {
                    self.ignored.extend(head.ignored.iter().map(|text| pattern_below(&list.below, text)));
                }
                // The hashes of directories follow from those of the files.
                Ok(Some(Ok(MhlItem::Root(_) | MhlItem::Directory(_)))) => {}
                Ok(Some(Err(bad))) => report.add(Some(bad.line), bad.fault),
                Err(error) => {
                    match error {
                        MhlError::Damaged { line, what } | MhlError::Unsupported { line, what } => {
                            report.add(Some(line), what);
                        }
                        error => report.add(None, chain(&error)),
                    }
                    break;
                }
            }
        }
        reader.looks_like_dos()
    }

    fn mhl_file(
        &mut self,
        list: &ListFile,
        file: MhlFile,
        separators: &mut Separators,
        report: &mut ListReport,
    ) {
        let path = match separators.path(file.path, file.dos_path) {
            Ok(path) => path,
            Err(fault) => return report.add(Some(file.line), fault),
        };
        // What failed then is no expectation: an earlier generation has that.
        let good: Vec<Digest> = expected(file.digests).collect();
        for digest in &good {
            self.add(list, &path, file.len, std::slice::from_ref(digest), report);
        }
        if let Some(previous) = file.previous_path.filter(|_| !good.is_empty()) {
            // It is not called so any more.
            self.builder.add(&joined(&list.below, &previous), list.date_ns, None, &[]);
        }
    }

    /// Takes the history of a directory that a list refers to.
    fn refer(&mut self, list: &ListFile, reference: &MhlReference, report: &mut ListReport) {
        let Some((folder, directory)) = folder_of(&reference.path, &list.below) else {
            return report.add(Some(reference.line), "the list that it refers to is in no folder `ascmhl`");
        };
        let branch = self.branch;
        let found = find_below(&*branch.tree, branch.id, &joined(&list.below, &reference.path));
        let source = match found.and_then(|id| id.map(|id| branch.tree.open(id)).transpose()) {
            Ok(Some(source)) => source,
            Ok(None) => {
                let path = shown(branch, &joined(&list.below, &reference.path));
                return report.add(Some(reference.line), format!("{} is not there", path.display()));
            }
            Err(error) => return report.add(Some(reference.line), chain(&error)),
        };
        let referred = ListFile::of(source, b"", b"");
        match digest_of(&referred, reference.digest.kind) {
            Ok(digest) if digest == reference.digest => {}
            Ok(_) => {
                let path = referred.path.display();
                report.add(Some(reference.line), format!("{path} is not the list that it refers to"));
                self.belied.insert(directory.clone());
            }
            Err(why) => report.add(Some(reference.line), why),
        }
        if self.folders.len() >= FOLDERS_MAX || !self.folders.insert(folder.clone()) {
            return;
        }
        let lists = find_below(&*branch.tree, branch.id, &folder);
        let lists = lists.and_then(|id| id.map(|id| history(branch, id, &directory)).transpose());
        match lists {
            Ok(lists) => {
                let (lists, problems) = lists.unwrap_or_default();
                self.waiting.extend(lists);
                self.reports.extend(problems);
            }
            Err(error) => report.add(Some(reference.line), chain(&error)),
        }
    }
}

impl Separators {
    /// The path that a line means.
    fn path<E>(&mut self, path: Vec<u8>, dos_path: Option<Result<Vec<u8>, E>>) -> Result<Vec<u8>, E> {
        match dos_path {
            Some(dos_path) if self.is_dos => dos_path,
            Some(_) if self.samples.len() < SAMPLES_MAX => {
                self.samples.push(path.clone());
                Ok(path)
            }
            _ => Ok(path),
        }
    }
}
