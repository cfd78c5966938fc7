//! Which bytes may go to a model as an image.
//!
//! A client passes image blocks on unseen, and a provider refuses the whole
//! conversation for one that is broken or huge. So an image is sniffed, whole
//! and of a sane size here, or it is not sent.

/// Largest width or height that every provider takes.
const MOST_PIXELS: u32 = 8000;

/// The media type of this image, or why it cannot be shown.
pub(crate) fn inspect(bytes: &[u8]) -> Result<&'static str, &'static str> {
    let (media_type, whole, size) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        ("image/png", bytes.ends_with(b"IEND\xae\x42\x60\x82"), png_size(bytes))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        ("image/jpeg", ends_soon(bytes, b"\xff\xd9"), jpeg_size(bytes))
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        ("image/gif", ends_soon(bytes, b"\x3b"), gif_size(bytes))
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        ("image/webp", webp_is_whole(bytes), webp_size(bytes))
    } else {
        return Err("is not a PNG, JPEG, GIF or WebP image, whatever its name says");
    };
    match size {
        _ if !whole => Err("is not a whole image"),
        None | Some((0, _) | (_, 0)) => Err("is not a whole image"),
        Some((width, height)) if width.max(height) > MOST_PIXELS => {
            Err("is wider or higher than 8,000 pixels")
        }
        Some(_) => Ok(media_type),
    }
}

/// Whether a file of this name is worth opening as an image.
pub(crate) fn is_candidate(media_type: &str) -> bool {
    matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Some writers add padding after the end mark.
fn ends_soon(bytes: &[u8], mark: &[u8]) -> bool {
    let tail = &bytes[bytes.len().saturating_sub(64)..];
    tail.windows(mark.len()).any(|window| window == mark)
}

fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((big_endian(bytes.get(16..20)?), big_endian(bytes.get(20..24)?)))
}

fn gif_size(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((little_endian(bytes.get(6..8)?), little_endian(bytes.get(8..10)?)))
}

/// Walks the segments to the one that starts a frame.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [0xff, kind] = *bytes.get(at..at + 2)? else { return None };
        match kind {
            0xff => at += 1,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let height = big_endian(bytes.get(at + 5..at + 7)?);
                return Some((big_endian(bytes.get(at + 7..at + 9)?), height));
            }
            0x01 | 0xd0..=0xd8 => at += 2,
            _ => {
                let length = big_endian(bytes.get(at + 2..at + 4)?) as usize;
                at += 2 + length.max(2);
            }
        }
    }
}

fn webp_is_whole(bytes: &[u8]) -> bool {
    let Some(length) = bytes.get(4..8) else { return false };
    bytes.len() as u64 >= u64::from(little_endian(length)) + 8
}

fn webp_size(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => {
            let field = |at| Some(little_endian(bytes.get(at..at + 2)?) & 0x3fff);
            Some((field(26)?, field(28)?))
        }
        b"VP8L" => {
            let packed = little_endian(bytes.get(21..25)?);
            Some(((packed & 0x3fff) + 1, ((packed >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => {
            let field = |at| Some(little_endian(bytes.get(at..at + 3)?) + 1);
            Some((field(24)?, field(27)?))
        }
        _ => None,
    }
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The frame of a PNG of this size; its pixels are not looked at here.
    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(b"\x08\x06\0\0\0CRCx\0\0\0\0IEND\xae\x42\x60\x82");
        bytes
    }

    fn jpeg() -> Vec<u8> {
        let mut bytes = b"\xff\xd8\xff\xe0\x00\x04ab".to_vec();
        bytes.extend(b"\xff\xc0\x00\x11\x08\x00\x20\x00\x10");
        bytes.extend([0; 12]);
        bytes.extend(b"\xff\xd9\0\0");
        bytes
    }

    fn gif() -> Vec<u8> {
        b"GIF89a\x01\x00\x02\x00\0\0\0\x3b".to_vec()
    }

    fn webp() -> Vec<u8> {
        let mut bytes = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
        bytes.extend(b"\x0f\0\0\x1f\0\0");
        bytes
    }

    #[test]
    fn images_are_known_by_their_bytes() {
        assert_eq!(inspect(&png(640, 480)), Ok("image/png"));
        assert_eq!(inspect(&jpeg()), Ok("image/jpeg"));
        assert_eq!(jpeg_size(&jpeg()), Some((16, 32)));
        assert_eq!(inspect(&gif()), Ok("image/gif"));
        assert_eq!(inspect(&webp()), Ok("image/webp"));
        assert_eq!(webp_size(&webp()), Some((16, 32)));
    }

    #[test]
    fn broken_huge_and_false_images_are_refused() {
        assert!(inspect(b"").is_err());
        assert!(inspect(b"<svg/>").is_err());
        assert!(inspect(&png(0, 10)).is_err());
        assert_eq!(inspect(&png(8001, 10)), Err("is wider or higher than 8,000 pixels"));
        for whole in [png(64, 64), jpeg(), gif(), webp()] {
            for end in 0..whole.len() - 3 {
                assert!(inspect(&whole[..end]).is_err(), "{end} of {whole:?}");
            }
        }
    }
}
