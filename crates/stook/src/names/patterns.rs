//! Patterns on paths and keys.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Why patterns cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

/// A set of patterns. A path matches if it matches any of them.
///
/// `*` and `?` match within a name, `**` any number of directories, `[a-z]` one of these
/// characters, `{a,b}` either, `\xNN` the byte with these two hexadecimal digits, as
/// [`escaped`](super::escaped) shows it; any other `\` takes the next character literally. A
/// pattern without a slash is matched against the last name of a path, at any depth; one with a
/// slash against the whole path from the root, and a leading slash or `./` anchors it there. A
/// trailing slash does not count as one: the pattern then means directories, with everything below
/// them, and no files.
///
/// ```
/// use stook::names::Patterns;
///
/// let patterns = Patterns::new(["*.jpg", "/top", "./a/**", "tmp/"]).unwrap();
/// assert!(patterns.matches(b"x/y/z.jpg") && patterns.matches(b"top") && patterns.matches(b"a/b/c"));
/// assert!(!patterns.matches(b"x/top") && !patterns.matches(b"a"));
/// assert!(patterns.matches_directory(b"x/tmp") && patterns.matches(b"x/tmp/y") && !patterns.matches(b"x/tmp"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    texts: Vec<String>,
    /// For any kind of file.
    any: Globs,
    /// For directories only.
    directories: Globs,
    /// Which texts matched something. Copies share it.
    matched: Arc<[AtomicBool]>,
}

/// Patterns of one kind.
#[derive(Debug, Clone, Default)]
struct Globs {
    set: GlobSet,
    /// The text that each of them was made from.
    texts: Vec<usize>,
    /// Which of them name a byte that is not UTF-8; empty if none does.
    with_stand_ins: Vec<usize>,
}

impl Globs {
    fn of(parsed: &[Parsed]) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for one in parsed {
            set.add(one.glob.clone());
        }
        let numbered = parsed.iter().enumerate();
        let with_stand_ins = numbered.filter(|(_, one)| one.has_stand_ins).map(|(at, _)| at).collect();
        let texts = parsed.iter().map(|one| one.text).collect();
        Ok(Self { set: set.build()?, texts, with_stand_ins })
    }

    fn meet(&self, path: &[u8]) -> bool {
        self.set.is_match(OsStr::from_bytes(path)) || !self.met_by_stand_ins(path).is_empty()
    }

    /// The texts of those that a path matches.
    fn texts_for(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let mut met = self.set.matches(OsStr::from_bytes(path));
        met.extend(self.met_by_stand_ins(path));
        met.into_iter().filter_map(move |at| self.texts.get(at).copied())
    }

    /// Those that name a byte that is not UTF-8 and that a path with such bytes matches.
    fn met_by_stand_ins(&self, path: &[u8]) -> Vec<usize> {
        if self.with_stand_ins.is_empty() || std::str::from_utf8(path).is_ok() {
            return Vec::new();
        }
        let mut met = self.set.matches(OsStr::new(&stood_in(path)));
        met.retain(|at| self.with_stand_ins.contains(at));
        met
    }
}

/// A parsed pattern.
struct Parsed {
    glob: Glob,
    is_of_directories: bool,
    /// The number of its text.
    text: usize,
    /// Whether it names a byte that is not UTF-8.
    has_stand_ins: bool,
}

impl Parsed {
    fn new(number: usize, text: &str) -> Result<Self, PatternError> {
        let path = text.trim_start_matches("./");
        let name = path.trim_end_matches('/');
        let is_from_root = path.len() < text.len() || name.contains('/');
        let name = name.trim_start_matches('/');
        if name.is_empty() || name == "." {
            let error = format!("{text:?} is not a pattern; expected one like *.jpg, /top or 2024/**");
            return Err(PatternError(error));
        }
        let anywhere = if is_from_root { name.to_owned() } else { format!("**/{name}") };
        let wrong = |error: globset::Error| {
            PatternError(format!(
                "{text:?} is not a pattern: {}; `\\` before a character takes it as it is",
                error.kind()
            ))
        };
        let (known, has_stand_ins) = with_bytes(&anywhere);
        let glob = GlobBuilder::new(&known).literal_separator(true).build().map_err(wrong)?;
        Ok(Self { glob, is_of_directories: path.ends_with('/'), text: number, has_stand_ins })
    }
}

/// A glob with `\xNN` decoded, and whether that needs stand-in characters. A backslash before
/// anything else stays.
fn with_bytes(glob: &str) -> (Cow<'_, str>, bool) {
    if !glob.contains("\\x") {
        return (Cow::Borrowed(glob), false);
    }
    let (mut known, mut rest, mut has_stand_ins) = (String::with_capacity(glob.len()), glob, false);
    while let Some((before, after)) = rest.split_once('\\') {
        known.push_str(before);
        // Several of them may be one character.
        let (mut bytes, mut run) = (Vec::new(), Some(after));
        rest = after;
        while let Some((byte, left)) = run.and_then(byte_shown) {
            bytes.push(byte);
            (rest, run) = (left, left.strip_prefix('\\'));
        }
        if bytes.is_empty() {
            let mut chars = after.chars();
            known.push('\\');
            known.extend(chars.next());
            rest = chars.as_str();
        }
        for chunk in bytes.utf8_chunks() {
            // None of them has its special meaning in a glob.
            known.extend(chunk.valid().chars().flat_map(|one| ['\\', one]));
            known.extend(chunk.invalid().iter().map(|byte| stand_in(*byte)));
            has_stand_ins |= !chunk.invalid().is_empty();
        }
    }
    known.push_str(rest);
    (Cow::Owned(known), has_stand_ins)
}

/// The byte that `xNN` shows, and what follows it.
fn byte_shown(text: &str) -> Option<(u8, &str)> {
    let text = text.strip_prefix('x')?;
    let digits = text.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    Some((u8::from_str_radix(digits, 16).ok()?, text.get(2..)?))
}

/// The character that a glob, which knows only characters, has for a byte that is not UTF-8. It is
/// for private use.
fn stand_in(byte: u8) -> char {
    char::from_u32(0x10_FF00 | u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// A path with stand-in characters.
fn stood_in(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len() + 16);
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| stand_in(*byte)));
    }
    text
}

/// The pattern that means in a tree what this one means in one of its directories.
pub(crate) fn pattern_below(directory: &[u8], text: &str) -> String {
    if directory.is_empty() {
        return text.to_owned();
    }
    let path = text.trim_start_matches("./");
    // One without a slash before its end matches at any depth.
    let is_from_root = path.len() < text.len() || path.trim_end_matches('/').contains('/');
    let mut below = String::with_capacity(directory.len() + text.len() + 4);
    for chunk in directory.utf8_chunks() {
        for character in chunk.valid().chars() {
            if "*?[]{}\\".contains(character) {
                below.push('\\');
            }
            below.push(character);
        }
        below.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    below.push_str(if is_from_root { "/" } else { "/**/" });
    below.push_str(path.trim_start_matches('/'));
    below
}

impl Patterns {
    /// The patterns of these texts.
    ///
    /// # Errors
    /// Returns an error if one of them is invalid or empty.
    pub fn new<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, PatternError> {
        let texts: Vec<String> = texts.into_iter().map(|text| text.as_ref().to_owned()).collect();
        let parsed = texts.iter().enumerate().map(|(number, text)| Parsed::new(number, text));
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        let (directories, any): (Vec<_>, Vec<_>) = parsed.into_iter().partition(|one| one.is_of_directories);
        let globs = |parsed: &[Parsed]| {
            Globs::of(parsed)
                .map_err(|error| PatternError(format!("these patterns cannot be used together: {error}")))
        };
        let (any, directories) = (globs(&any)?, globs(&directories)?);
        let matched = texts.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { texts, any, directories, matched })
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The texts that they were made from.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether a path matches one of them. Where it is known to be that of a directory,
    /// [`matches_directory`](Self::matches_directory) says more.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.meet(path, false)
    }

    /// Whether the path of a directory matches one of them.
    pub fn matches_directory(&self, path: &[u8]) -> bool {
        self.meet(path, true)
    }

    /// The texts of the patterns that matched no path yet.
    pub fn unmatched(&self) -> impl Iterator<Item = &str> {
        let all = self.texts.iter().zip(self.matched.iter());
        all.filter(|(_, matched)| !matched.load(Relaxed)).map(|(text, _)| text.as_str())
    }

    /// Whether one of them means directories only, so that the kind of a path may decide whether it
    /// matches.
    pub fn ask_for_kinds(&self) -> bool {
        !self.directories.texts.is_empty()
    }

    /// Whether its kind decides whether a path matches: it does if it is that of a directory, and
    /// not otherwise.
    pub fn depend_on_kind(&self, path: &[u8]) -> bool {
        self.ask_for_kinds() && self.would_meet(path, true) && !self.would_meet(path, false)
    }

    fn meet(&self, path: &[u8], is_directory: bool) -> bool {
        let is_met = self.would_meet(path, is_directory);
        if is_met && self.unmatched().next().is_some() {
            self.note(path, is_directory);
        }
        is_met
    }

    /// The same, and nothing is noted.
    fn would_meet(&self, path: &[u8], is_directory: bool) -> bool {
        self.any.meet(path)
            || (self.ask_for_kinds()
                && directories_of(path, is_directory).any(|one| self.directories.meet(one)))
    }

    /// Notes which of them a path matches: every one, not only the first that is found.
    fn note(&self, path: &[u8], is_directory: bool) {
        let above = directories_of(path, is_directory).flat_map(|one| self.directories.texts_for(one));
        for text in self.any.texts_for(path).chain(above) {
            if let Some(matched) = self.matched.get(text) {
                matched.store(true, Relaxed);
            }
        }
    }
}

/// The directories above a path, and the path itself if it is a directory. The root has no name
/// that a pattern could match.
fn directories_of(path: &[u8], is_directory: bool) -> impl Iterator<Item = &[u8]> {
    directories_above(path).chain((is_directory && !path.is_empty()).then_some(path))
}

pub(crate) fn directories_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').filter_map(move |(at, _)| path.get(..at))
}

/// Which paths are selected: those that match an inclusion (all, if there are no inclusions) and no
/// exclusion.
///
/// An excluded directory is excluded with all its contents.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    include: Patterns,
    exclude: Patterns,
}

impl Selection {
    /// Selects what matches any of `include` (everything, if there are none) and none of `exclude`.
    pub fn of(include: Patterns, exclude: Patterns) -> Self {
        Self { include, exclude }
    }

    /// The same, without what matches any of these patterns.
    ///
    /// # Errors
    /// Returns an error if one of them is invalid or empty.
    pub fn without(&self, patterns: &[&str]) -> Result<Self, PatternError> {
        let texts = self.exclude.texts().iter().map(String::as_str).chain(patterns.iter().copied());
        Ok(Self { include: self.include.clone(), exclude: Patterns::new(texts)? })
    }

    /// Whether all is taken.
    pub fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether anything in particular is selected.
    pub fn has_inclusions(&self) -> bool {
        !self.include.is_empty()
    }

    /// Whether the path itself is included; it may still be excluded.
    pub fn includes(&self, path: &[u8], is_directory: bool) -> bool {
        self.include.is_empty() || self.include.meet(path, is_directory)
    }

    /// Whether a path is excluded by name; a directory with all its contents.
    pub fn excludes(&self, path: &[u8], is_directory: bool) -> bool {
        self.exclude.meet(path, is_directory)
    }

    /// Whether the path itself is selected; directories above it may be excluded.
    pub fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        !self.excludes(path, is_directory) && self.includes(path, is_directory)
    }

    /// Whether a path is taken, and no directory above it is left out. `is_directory` is called
    /// only where the kind of the path [decides](Self::depends_on_kind).
    pub fn takes_below(&self, path: &[u8], is_directory: impl FnOnce() -> bool) -> bool {
        // From the root on, as a walk goes: what is in a directory that is left out is not looked
        // at.
        if directories_above(path).any(|above| self.excludes(above, true)) {
            return false;
        }
        self.takes(path, self.depends_on_kind(path) && is_directory())
    }

    /// Whether a pattern means directories only, so that the kind of a path may decide whether it
    /// is taken.
    pub fn asks_for_kinds(&self) -> bool {
        self.include.ask_for_kinds() || self.exclude.ask_for_kinds()
    }

    /// Whether the kind of a path decides whether a pattern matches it.
    pub fn depends_on_kind(&self, path: &[u8]) -> bool {
        self.include.depend_on_kind(path) || self.exclude.depend_on_kind(path)
    }

    /// The exclusions that have matched no path so far: usually misspelt.
    pub fn unmatched_exclusions(&self) -> impl Iterator<Item = &str> {
        self.exclude.unmatched()
    }

    /// Whether an empty result was requested: exclusions left out everything there was. An
    /// inclusion that selected nothing is usually misspelt, and so are exclusions that all matched
    /// nothing.
    pub fn leaves_nothing_on_purpose(&self) -> bool {
        self.include.is_empty() && self.unmatched_exclusions().count() < self.exclude.texts().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        Selection::of(Patterns::new(include).unwrap(), Patterns::new(exclude).unwrap())
    }

    fn takes(selection: &Selection, path: &[u8]) -> bool {
        selection.takes(path, false)
    }

    #[test]
    fn patterns_match_names_anywhere_and_paths_from_the_root() {
        let jpg = selection(&["*.jpg"], &[]);
        assert!(takes(&jpg, b"a/b/c.jpg") && takes(&jpg, b"c.jpg") && !takes(&jpg, b"c.jpg/d"));
        let one = selection(&["/a/*"], &["b"]);
        assert!(takes(&one, b"a/c") && !takes(&one, b"a/b"));
        assert!(!takes(&one, b"x/a/c") && !takes(&one, b"a/c/d"));
        assert!(takes(&selection(&[], &[]), b"\xff\n") && takes(&selection(&["/*"], &[]), b"\xff\n"));
        assert!(!takes(&selection(&["/*"], &[]), b"a/b"));
    }

    #[test]
    fn a_slash_at_the_end_means_directories_with_all_below_and_no_file() {
        for (pattern, directories, others) in [
            ("a/", &["a", "x/a"][..], &["b", "x/b"][..]),
            ("/a/", &["a"], &["x/a", "b"]),
            ("./a/", &["a"], &["x/a"]),
            ("x/a//", &["x/a"], &["a", "x"]),
            ("**/", &["a", "x/a"], &[]),
            ("*/", &["a", "x/a"], &[]),
        ] {
            let patterns = Patterns::new([pattern]).unwrap();
            for path in directories.iter().map(|path| path.as_bytes()) {
                assert!(patterns.matches_directory(path), "{pattern} {path:?}");
                assert!(patterns.matches(&[path, b"/deep/file"].concat()), "{pattern} {path:?}");
            }
            for path in others.iter().map(|path| path.as_bytes()) {
                assert!(!patterns.matches_directory(path) && !patterns.matches(path), "{pattern} {path:?}");
            }
            assert!(!patterns.matches(b"a") && !patterns.matches_directory(b""), "{pattern}");
        }
    }

    #[test]
    fn a_dot_and_a_slash_at_the_front_mean_the_root() {
        for pattern in ["./a", "././a", "/a", ".//a"] {
            let patterns = Patterns::new([pattern]).unwrap();
            assert!(patterns.matches(b"a") && !patterns.matches(b"x/a"), "{pattern}");
        }
        let hidden = Patterns::new([".*", ".git"]).unwrap();
        assert!(hidden.matches(b".x") && hidden.matches(b"a/.git") && !hidden.matches(b"a"));
    }

    #[test]
    fn exclusions_that_match_nothing_are_known() {
        let some = selection(&["*"], &["*.tmp", "x/", "a", "none", "no/"]);
        let asked = [(&b"a/x/b.tmp"[..], false), (b"a", true), (b"no", false), (b"c", false)];
        let taken = asked.map(|(path, is_directory)| some.takes(path, is_directory));
        assert_eq!(taken, [false, false, true, true]);
        assert_eq!(some.unmatched_exclusions().collect::<Vec<_>>(), ["none", "no/"]);
    }

    #[test]
    fn what_is_in_a_directory_that_is_left_out_is_left_out() {
        let some = selection(&[], &["cache"]);
        let takes_below = |path: &[u8]| some.takes_below(path, || panic!("no pattern asks for it"));
        assert!(!takes_below(b"a/cache/b/c") && takes(&some, b"a/cache/b/c"));
        assert!(takes_below(b"a/caches"));
    }

    #[test]
    fn the_kind_of_a_path_is_asked_for_only_where_it_decides() {
        let some = selection(&[], &["2018/", "*.tmp"]);
        assert!(some.asks_for_kinds() && !selection(&["a"], &["*.tmp"]).asks_for_kinds());
        for is_directory in [false, true] {
            assert_eq!(some.takes_below(b"x/2018", || is_directory), !is_directory);
        }
        let never = || -> bool { panic!("it does not decide") };
        assert!(some.takes_below(b"x/2019", never));
        assert!(!some.takes_below(b"x/2018/a", never) && !some.takes_below(b"a.tmp", never));
        let included = selection(&["2018/"], &[]);
        assert!(included.takes_below(b"2018", || true) && !included.takes_below(b"2018", || false));
        assert!(included.takes_below(b"2018/a", never) && !included.takes_below(b"a", never));
        let patterns = Patterns::new(["a/", "**/"]).unwrap();
        assert!(patterns.depend_on_kind(b"a") && patterns.depend_on_kind(b"b"));
        assert!(!patterns.depend_on_kind(b"") && !patterns.depend_on_kind(b"a/b"));
        assert_eq!(patterns.unmatched().count(), 2, "a question is no match");
    }

    #[test]
    fn an_exclusion_of_a_directory_is_known_to_match_though_what_is_in_it_is_not_included() {
        let some = selection(&["*.jpg"], &["cache", "none"]);
        assert!(!some.takes_below(b"cache/a.txt", || false) && some.takes_below(b"a.jpg", || false));
        assert_eq!(some.unmatched_exclusions().collect::<Vec<_>>(), ["none"]);
    }

    #[test]
    fn nothing_is_left_on_purpose_where_exclusions_alone_left_it_out() {
        for (include, exclude, on_purpose) in [
            (&[][..], &["*"][..], true),
            (&[], &["*", "none"], true),
            (&[], &["none"], false),
            (&[], &[], false),
            (&["b"], &["*"], false),
        ] {
            let some = selection(include, exclude);
            let taken = some.takes_below(b"a", || false);
            assert_eq!(some.leaves_nothing_on_purpose(), on_purpose, "{include:?} {exclude:?} {taken}");
        }
    }

    #[test]
    fn bytes_in_patterns_are_written_as_they_are_shown() {
        for (pattern, path, other) in [
            (r"bad\xff.txt", &b"a/bad\xff.txt"[..], &b"badxff.txt"[..]),
            (r"bad\xff*", b"bad\xff and more", b"bad\xfe"),
            (r"/*\xff\xc3?/**", b"a\xff\xc3b/c", b"a\xc3\xffb/c"),
            (r"a\x0ab", b"a\nb", b"a0ab"),
            (r"\xc3\xbc*", "\u{fc}1".as_bytes(), b"\xc3"),
            (r"\x2a", b"*", b"a"),
            (r"a\\x41", br"a\x41", b"aA"),
            (r"\xg0", b"xg0", b"g0"),
        ] {
            let patterns = Patterns::new(["none", pattern]).unwrap();
            assert!(!patterns.matches(other) && patterns.unmatched().count() == 2, "{pattern}");
            assert!(patterns.matches(path) && patterns.unmatched().eq(["none"]), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_pattern() {
        for wrong in ["[a", "", "/", "//", "{a", ".", "./", ".//"] {
            let error = Patterns::new([wrong]).expect_err(wrong).to_string();
            assert!(error.contains(&format!("{wrong:?} is not a pattern")), "{error}");
        }
    }
}
