//! The text of a file: TOML is UTF-8 (TOML 1.0), and editors write other encodings, too.

use std::io;
use std::path::Path;

/// Reads the text of the file at `path`. An error of the kind `InvalidData` says in which encoding the file seems to be, and how to
/// convert it.
pub fn read_text(path: &Path) -> io::Result<String> {
    decode(std::fs::read(path)?, path).map_err(|advice| io::Error::new(io::ErrorKind::InvalidData, advice))
}

fn decode(bytes: Vec<u8>, path: &Path) -> Result<String, String> {
    let advice = |what: &str, encoding: &str| {
        format!("it is {what}, and TOML is UTF-8: `iconv -f {encoding} -t UTF-8 {}` converts it", path.display())
    };
    match bytes.as_slice() {
        // With a byte order mark, or with a letter of ASCII first.
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(advice("UTF-16", "UTF-16")),
        [first, 0, ..] if *first != 0 => return Err(advice("UTF-16", "UTF-16LE")),
        [0, second, ..] if *second != 0 => return Err(advice("UTF-16", "UTF-16BE")),
        _ => {}
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        advice(&format!("not UTF-8 in line {line}, but perhaps Latin-1"), "LATIN1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_reported_with_a_conversion() {
        let decode = |bytes: &[u8]| decode(bytes.to_vec(), Path::new("m.toml"));
        for good in ["", "a", "ä = 'ß'", "\u{feff}a = 1"] {
            assert_eq!(decode(good.as_bytes()).unwrap(), good);
        }
        let little: Vec<u8> = "[[port]]".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "[[port]]".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = |mark: [u8; 2], rest: &[u8]| [&mark, rest].concat();
        for (bytes, encoding) in [
            (marked([0xff, 0xfe], &little), "UTF-16"),
            (marked([0xfe, 0xff], &big), "UTF-16"),
            (little, "UTF-16LE"),
            (big, "UTF-16BE"),
        ] {
            let advice = format!("it is UTF-16, and TOML is UTF-8: `iconv -f {encoding} -t UTF-8 m.toml` converts it");
            assert_eq!(decode(&bytes).unwrap_err(), advice);
        }
        let latin = decode(b"a = 1\n# Gr\xfc\xdfe").unwrap_err();
        assert!(latin.contains("not UTF-8 in line 2") && latin.contains("iconv -f LATIN1"), "{latin}");
    }
}
