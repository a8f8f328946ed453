//! Bytes of a log, compressed.

use std::io::{Read, Write};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};

/// Some bytes in zlib's format, which has a checksum. Packed by the code that reads the log, so
/// that the thread that writes does not spend its time on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub(crate) zlib: Vec<u8>,
    size: u64,
}

impl Packed {
    /// Packs these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let packed = zlib.write_all(bytes).and_then(|()| zlib.finish());
        Self { zlib: packed.expect("a Vec takes every write"), size: bytes.len() as u64 }
    }

    /// How many bytes there are, unpacked.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes.
    ///
    /// # Panics
    /// Never: they were packed here.
    #[must_use]
    pub fn unpack(&self) -> Vec<u8> {
        unpack(&self.zlib).expect("packed by Packed::new")
    }
}

/// The bytes of a row.
pub(crate) fn unpack(zlib: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(zlib).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_takes_less_room() {
        let log: Vec<u8> = (0..20_000).flat_map(|i| format!("step {i}: loss 0.25\n").into_bytes()).collect();
        let packed = Packed::new(&log);
        assert_eq!((packed.unpack(), packed.size), (log.clone(), log.len() as u64));
        assert!(packed.zlib.len() * 4 < log.len(), "{} of {}", packed.zlib.len(), log.len());
        assert_eq!(Packed::new(b"").unpack(), b"");
        assert!(unpack(&packed.zlib[..100]).is_err());
    }
}
