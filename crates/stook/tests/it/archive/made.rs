//! Tars made byte by byte, for what no tool would write.

/// One header, its checksum set.
pub(super) fn header(name: &[u8], type_flag: u8, size: u64) -> Vec<u8> {
    let mut block = vec![0_u8; 512];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..116].copy_from_slice(b"0000001\0");
    block[116..124].copy_from_slice(b"0000002\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000012\0");
    block[156] = type_flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    sign(&mut block);
    block
}

/// Sets the checksum of a header that was changed.
pub(super) fn sign(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block[..512].iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A header with what follows, filled up to whole blocks.
pub(super) fn member(name: &[u8], type_flag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, type_flag, body.len() as u64);
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// A link to `target`.
pub(super) fn link(name: &[u8], type_flag: u8, target: &[u8]) -> Vec<u8> {
    let mut block = header(name, type_flag, 0);
    block[157..157 + target.len()].copy_from_slice(target);
    sign(&mut block);
    block
}

/// An extended header of these records.
pub(super) fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let len = (1..).map(|digits| rest + digits).find(|len| len.to_string().len() + rest == *len).unwrap();
        body.extend_from_slice(format!("{len} {key}=").as_bytes());
        body.extend_from_slice(value);
        body.push(b'\n');
    }
    member(b"pax", b'x', &body)
}

/// The end of a tar.
pub(super) fn end() -> Vec<u8> {
    vec![0; 1024]
}
