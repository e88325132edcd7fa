//! Containers of any bytes: they are refused, or their members lie where they say, side by side.

use std::sync::Arc;

use stook::extent::ByteRange;
use stook::format::afs::{self, Detail, Layout, PLACE_LEN, Table};
use stook::format::layout::{Encoder, decode};
use stook::source::{MemorySource, Source as _};
use stook::stitch::{Layout as _, Members, Patch};
use stook::tree::CaseRule;

/// AFS: members within the file, none within another; laid out again they have the same lengths.
pub fn format_afs(data: &[u8]) {
    let file_len = data.len() as u64;
    let Some(header) = data.first_chunk() else { return };
    let Ok(len) = afs::table_len(header, file_len) else { return };
    let Ok(table) = Table::decode(&data[..len], file_len) else { return };
    let mut places: Vec<ByteRange> = table.places().iter().flatten().copied().collect();
    assert!(places.iter().all(|place| place.start() >= len as u64 && place.end() <= file_len));
    places.retain(|place| !place.is_empty());
    places.sort();
    assert!(places.windows(2).all(|pair| pair[0].end() <= pair[1].start()), "members lie side by side");
    for pointer in table.pointers() {
        let bytes: [u8; PLACE_LEN] = slice(data, pointer).try_into().expect("it has that length");
        let Some(place) = table.details(&bytes) else { continue };
        let bytes = slice(data, place);
        let details = Detail::decode_all(bytes).expect("whole details were asked for");
        assert_eq!(details.len(), table.places().len());
        let layout = Layout::new(&vec![None; details.len()], true).expect("there is room for details");
        let encoded = layout.encode_details(&details).expect("as many as were planned");
        assert_eq!(&encoded[..bytes.len()], bytes, "details come back byte for byte");
    }
    let lens = |table: &Table| -> Vec<Option<u64>> {
        table.places().iter().map(|place| place.map(|place| place.len())).collect()
    };
    let Ok(layout) = Layout::new(&lens(&table), false) else { return };
    let anew = Table::decode(&layout.head(), layout.file_len()).expect("what was laid out is read");
    assert_eq!((anew.places(), lens(&anew)), (layout.places(), lens(&table)));
}

/// Layouts: what was read is written, and read again the same.
pub fn format_layout(data: &[u8]) {
    let Ok(files) = decode(data) else { return };
    let mut encoder = Encoder::new();
    for file in &files {
        encoder.file(file.name.as_bytes()).expect("a name that was read is UTF-8");
        file.pieces.iter().for_each(|piece| encoder.piece(piece));
        encoder.end_file();
    }
    assert_eq!(decode(encoder.take().as_bytes()).expect("what was written is read"), files);
}

/// Archives that are patched: with nothing to change they have the same bytes.
pub fn stitch_patch(data: &[u8]) {
    let archive = Arc::new(MemorySource::new("archive", data.to_vec()));
    let Ok(patch) = Patch::open(archive, CaseRule::Exact, &mut |_| true) else { return };
    let Ok(laid) = patch.lay_out("patched".into(), Members::new()) else { return };
    let whole = laid.file.read_at(ByteRange::to(laid.file.len())).expect("its bytes are in memory");
    assert!(whole == data, "nothing was changed");
}

fn slice(data: &[u8], range: ByteRange) -> &[u8] {
    &data[range.start() as usize..range.end() as usize]
}
