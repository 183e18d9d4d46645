//! One decoder, and what shows that it survives any input.

/// What shows that a decoder survives any input of a client.
pub(super) enum Shown {
    /// A property test, and its file.
    By(&'static str, &'static str),
    /// Nothing that a client sends gets here, and why.
    NoClient(&'static str),
}

/// A function that decodes.
pub(super) struct Decoder {
    pub(super) file: &'static str,
    pub(super) function: &'static str,
    pub(super) shown: Shown,
}

pub(super) const fn by(
    file: &'static str,
    function: &'static str,
    tests: &'static str,
    test: &'static str,
) -> Decoder {
    Decoder {
        file,
        function,
        shown: Shown::By(tests, test),
    }
}

pub(super) const fn no_client(
    file: &'static str,
    function: &'static str,
    why: &'static str,
) -> Decoder {
    Decoder {
        file,
        function,
        shown: Shown::NoClient(why),
    }
}
