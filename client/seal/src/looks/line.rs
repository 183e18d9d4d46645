//! What one line of text looks like that encodes no key, or one that others know.

use super::{Looks, RUN_DIGITS_MIN};

/// Different bytes of which a random key of 32 bytes has more, but for one in 10^36.
const VARIETY_MIN: usize = 8;
/// Bytes from which on a number may be the modulus of an RSA key: those of 2,048 bits, with a margin.
const MODULUS_BYTES_MIN: usize = 255;
/// The modulus of an RSA key has no factor below this.
const FACTOR_MAX: u32 = 1 << 12;

impl Looks {
    /// What a text looks like that is neither hexadecimal digits nor base64, but has a line's form:
    /// `NAME=VALUE`, or several keys behind each other.
    pub(crate) fn of_line(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let text = text.strip_prefix(b"export ").unwrap_or(text);
        let end = text.iter().position(|byte| *byte == b'=')?;
        let (name, behind) = text.split_at(end);
        if behind.iter().all(|byte| *byte == b'=') || text.contains(&b'\n') {
            return None;
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+/".contains(byte);
        if !name.iter().all(is_name) {
            None
        } else if name.len() < RUN_DIGITS_MIN {
            Some(Self::Assigned)
        } else {
            let is_key = |byte: &u8| is_name(byte) || *byte == b'=';
            behind.iter().all(is_key).then_some(Self::Joined)
        }
    }

    /// What the bytes look like that a text encodes, if they can be no key: a placeholder, or a
    /// number that is public.
    pub(crate) fn of_decoded(bytes: &[u8]) -> Option<Self> {
        let mut seen = [false; 256];
        for byte in bytes {
            seen[usize::from(*byte)] = true;
        }
        if seen.iter().filter(|seen| **seen).count() < VARIETY_MIN {
            Some(Self::Repeated)
        } else if is_modulus(bytes) {
            Some(Self::Modulus)
        } else {
            None
        }
    }
}

/// Whether it is a hexadecimal number. One in 4,096 keys in base64 begins so, too.
pub(super) fn is_hex_behind_0x(text: &[u8]) -> bool {
    text.split_first_chunk::<2>().is_some_and(|(head, rest)| {
        head.eq_ignore_ascii_case(b"0x") && rest.iter().all(u8::is_ascii_hexdigit)
    })
}

/// Whether it may be the modulus of an RSA key, which is the product of two large primes, of whole
/// bytes. Of random keys of such a length one in thirty is taken for one, too.
fn is_modulus(bytes: &[u8]) -> bool {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let number = &bytes[zeros..];
    let is_long = number.len() >= MODULUS_BYTES_MIN && number[0] >= 0x80;
    let divides = |factor: u32| {
        let rest = number
            .iter()
            .fold(0, |rest, byte| (rest << 8 | u32::from(*byte)) % factor);
        rest == 0
    };
    is_long && !divides(2) && !(3..FACTOR_MAX).step_by(2).any(divides)
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE64, BASE64URL_NOPAD};

    use super::*;

    #[test]
    fn line_of_several_parts_is_named() {
        let key = BASE64.encode(&[0x3b; 32]);
        for (line, looks) in [
            (format!("KEY={key}"), Some(Looks::Assigned)),
            (format!("export HELVE_KEY={key}\n"), Some(Looks::Assigned)),
            (format!("a.b-c={key}"), Some(Looks::Assigned)),
            (format!("{key}{key}"), Some(Looks::Joined)),
            (key.clone(), None),
            (format!("{key}="), None),
            (format!("the key = {key}"), None),
            (format!("A=1\nKEY={key}"), None),
            (format!("{key}\u{a0}"), None),
            (String::new(), None),
        ] {
            assert_eq!(Looks::of_line(line.as_bytes()), looks, "{line}");
        }
    }

    #[test]
    fn placeholder_is_no_key() {
        let period: Vec<u8> = (0..64).map(|at| at % 3).collect();
        for bytes in [&[0; 32][..], &[0xaa; 64], &period] {
            assert_eq!(Looks::of_decoded(bytes), Some(Looks::Repeated), "{bytes:?}");
        }
        let key: Vec<u8> = (0..8).cycle().take(32).collect();
        assert_eq!(Looks::of_decoded(&key), None);
    }

    #[test]
    fn modulus_is_told_by_its_factors() {
        let modulus = BASE64URL_NOPAD.decode(MODULUS.as_bytes()).unwrap();
        assert_eq!(Looks::of_decoded(&modulus), Some(Looks::Modulus));
        let signed = [&[0][..], &modulus].concat();
        assert_eq!(Looks::of_decoded(&signed), Some(Looks::Modulus));
        let mut even = modulus.clone();
        *even.last_mut().unwrap() &= 0xfe;
        assert_eq!(Looks::of_decoded(&even), None);
        // Three divides it.
        let sum = modulus.iter().map(|byte| u32::from(*byte)).sum::<u32>() % 3;
        let mut thrice = modulus.clone();
        let step = u8::try_from(sum).unwrap();
        thrice[1] = thrice[1].checked_sub(step).unwrap_or(thrice[1] + 3 - step);
        assert_eq!(Looks::of_decoded(&thrice), None);
        assert_eq!(Looks::of_decoded(&modulus[..128]), None);
    }

    /// Of a key of 2,048 bits that was made for this test.
    const MODULUS: &str = "l1u6fOyjh4CgiZbj6GPXnTtijcJlIOs6RoYmc7dPmf2ti2HFdX638NV669N4fk2NGDTFhIfPCDndA-5c\
        kj0wawab-njOqWInvgosPmg3UABQvZfh0HrXsNopLSobBcQwOka8H258xpVmPbbKcilpJPx_mxfR_6Iu\
        qbet0WoZAdV427-A34iC-la71---9N0R96DETAuVV4CzB616x9Hh55ZzIxLS3Wkr0041k79yhHnbE2fX\
        flNbWVP_m83iHkDGbI4qBGNaEhsZOCNKvxiUoUjtatMx-qCY5bxvLsiTgIoqyWW8vtvq5H683e3XcHIc\
        Ew12LUeLmzDg_OKaz-IPLQ";
}
