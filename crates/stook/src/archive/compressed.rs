//! Tars that are compressed as a whole, read from their front with bounded memory.

use std::io::{self, BufRead, Read};

use super::format::Format;
use super::input::Input;

/// The largest window that is accepted, as a power of two: the default limit of `zstd`.
const WINDOW_LOG_MAX: u32 = 27;

/// The most memory that a decompressor of xz may take: four fifths of it are a window twice as long
/// as the longest that `xz -9` makes.
const XZ_MEMORY_MAX: u64 = 160 << 20;

/// What gzip, zstd and xz begin with.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];
pub(super) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// An input as the decompressors want it.
pub(super) struct AsReader<I>(pub(super) I);

impl<I: Input> Read for AsReader<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let there = self.0.fill().map_err(io::Error::other)?;
        let len = there.len().min(buffer.len());
        let (now, _) = buffer.split_at_mut(len);
        now.copy_from_slice(there.get(..len).unwrap_or_default());
        self.0.consume(len);
        Ok(len)
    }
}

impl<I: Input> BufRead for AsReader<I> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill().map_err(io::Error::other)
    }

    fn consume(&mut self, len: usize) {
        self.0.consume(len);
    }
}

/// The format of a compressed stream, by its first bytes.
pub(super) fn format_of(first: &[u8]) -> Option<Format> {
    let formats = [(&GZIP[..], Format::TarGzip), (&ZSTD[..], Format::TarZstd), (&XZ[..], Format::TarXz)];
    formats.into_iter().find(|(begins, _)| first.starts_with(begins)).map(|(_, format)| format)
}

/// The content of a compressed stream.
pub(super) fn decompress<R: BufRead + Send + 'static>(
    reader: R,
    format: Format,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match format {
        Format::TarZstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Format::TarXz => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_MAX, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(reader, stream))
        }
        _ => Box::new(Gunzip { current: Some(flate2::bufread::GzDecoder::new(reader)) }),
    })
}

/// All members of a gzip file, one after another; zeroes after the last, as tapes leave them, are
/// skipped.
struct Gunzip<R> {
    current: Option<flate2::bufread::GzDecoder<R>>,
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.current {
            let got = decoder.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            let Some(decoder) = self.current.take() else { break };
            let mut reader = decoder.into_inner();
            if has_more(&mut reader)? {
                self.current = Some(flate2::bufread::GzDecoder::new(reader));
            }
        }
        Ok(0)
    }
}

/// Whether anything but zeroes follows.
fn has_more(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let there = reader.fill_buf()?;
        if there.is_empty() {
            return Ok(false);
        }
        let zeroes = there.iter().take_while(|byte| **byte == 0).count();
        if zeroes < there.len() && zeroes == 0 {
            return Ok(true);
        }
        reader.consume(zeroes);
    }
}
