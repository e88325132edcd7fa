//! Proofs of parts of files, of any bytes.

use stook::format::proof::{Proof, ProofError, proof_len};

/// Proofs: they are refused, or have the length of that of the file that they say, and no block
/// that such a file has not. The digest is given, so that some fit.
pub fn proof(data: &[u8]) {
    let Some((digest, bytes)) = data.split_first_chunk::<32>() else { return };
    let Ok(mut proof) = Proof::open(bytes, bytes.len() as u64, *digest) else { return };
    assert_eq!(proof_len(proof.file_len()), Some(bytes.len() as u64));
    let blocks = proof.blocks();
    assert!(proof.range_of(blocks).is_none() && blocks > 1);
    assert_eq!(proof.has(blocks, &[]), Err(ProofError::NoBlock { blocks, number: blocks }));
    for number in [0, 1, blocks / 2, blocks - 1] {
        let range = proof.range_of(number).expect("it has this block");
        assert!(range.end() <= proof.file_len());
        // What is there is proven, or said to be damaged; no bytes are no block.
        assert!(matches!(proof.has(number, &[]), Ok(false) | Err(ProofError::Damaged { .. })));
    }
}
