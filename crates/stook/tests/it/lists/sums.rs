//! Lists for programs, of random files and random bytes.

use std::io::BufReader;

use proptest::prelude::*;
use stook::format::sums::{SumsReader, line};
use stook::hash::{Digest, HashKind};
use stook_testing::fuzz::lists;

fn path() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(&b"ab \\\n\r()=*#-."[..]),
        1 => (1..=u8::MAX).prop_filter("a separator", |byte| *byte != b'/'),
    ];
    let name =
        prop::collection::vec(byte, 1..12).prop_filter("a dot", |name| !matches!(&name[..], b"." | b".."));
    prop::collection::vec(name, 1..4).prop_map(|names| names.join(&b'/'))
}

fn kind() -> impl Strategy<Value = HashKind> {
    prop::sample::select(&HashKind::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_list_that_was_written_is_read_whatever_the_names_and_wherever_the_reads_end(
        files in prop::collection::vec((path(), any::<u64>()), 0..20),
        kind in kind(),
        says_kind in any::<bool>(),
        buffer in 1..40_usize,
    ) {
        let digest = |seed: u64| Digest::of(kind, &seed.to_le_bytes());
        let list: Vec<u8> = files.iter().flat_map(|(path, seed)| line(&digest(*seed), path)).collect();
        let mut reader = SumsReader::new(BufReader::with_capacity(buffer, &list[..]), says_kind.then_some(kind));
        for (number, (path, seed)) in (1..).zip(&files) {
            let line = reader.next_line().unwrap().unwrap().unwrap();
            prop_assert_eq!((line.number, &line.path), (number, path));
            prop_assert!(line.digests.contains(&digest(*seed)));
        }
        prop_assert!(reader.next_line().unwrap().is_none() && reader.ended());
    }

    #[test]
    fn a_list_that_is_cut_has_every_line_before_the_cut(
        files in prop::collection::vec(path(), 1..8),
        cut in 0.0..1.0_f64,
    ) {
        let digest = Digest::of(HashKind::Sha256, b"");
        let list: Vec<u8> = files.iter().flat_map(|path| line(&digest, path)).collect();
        let list = &list[..(list.len() as f64 * cut) as usize];
        let whole = list.iter().filter(|byte| **byte == b'\n').count();
        let mut reader = SumsReader::new(list, None);
        for path in &files[..whole] {
            prop_assert_eq!(&reader.next_line().unwrap().unwrap().unwrap().path, path);
        }
        while reader.next_line().unwrap().is_some() {}
        prop_assert_eq!(reader.ended(), list.last().is_none_or(|byte| *byte == b'\n'));
    }

    #[test]
    fn any_bytes_are_refused_line_by_line_and_lead_nowhere(data in prop::collection::vec(any::<u8>(), 0..400)) {
        lists::checksum_list(&data);
    }

    #[test]
    fn a_list_with_changed_bytes_is_refused_line_by_line_and_leads_nowhere(
        files in prop::collection::vec(path(), 1..8),
        kind in kind(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let digest = Digest::of(kind, b"");
        let mut list: Vec<u8> = files.iter().flat_map(|path| line(&digest, path)).collect();
        for (at, byte) in changes {
            let at = at.index(list.len());
            list[at] = byte;
        }
        list.insert(0, u8::MAX);
        lists::checksum_list(&list);
    }
}
