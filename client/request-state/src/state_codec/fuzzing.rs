//! Sealed states that a client makes up, and what a replica of another version may have sealed.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    CompatCodec, FixedKeys, HardenedCodec, Opened, OperatorKey, Refusal, SealingKey, StateBinding,
    StateCodec, StateContext, StateMode, hardened, primitives::NONCE_BYTES,
};

const NOW_MS: u64 = 1_899_999_700_000;

fn key() -> OperatorKey {
    OperatorKey::new([7; 32]).expect("a key of 32 bytes")
}

fn compat(mode: StateMode) -> CompatCodec {
    let codec = CompatCodec::new(&key()).mode(mode);
    codec.binding(StateBinding::SubjectAndTool).at(|| NOW_MS)
}

fn hardened() -> HardenedCodec {
    HardenedCodec::new(Arc::new(FixedKeys::new(&key()))).at(|| NOW_MS)
}

fn open(codec: &dyn StateCodec, sealed: &str) -> Result<Opened, Refusal> {
    now(codec.decode(sealed, &context()))
}

/// Ends work that waits for nothing: the keys are fixed.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("fixed keys wait for nothing"),
    }
}

fn context() -> StateContext<'static> {
    StateContext::new().subject("alice").target("refund")
}

/// Opens a sealed state. The first byte says what the rest is: the sealed text, what it holds under
/// authentication, or a state.
///
/// # Panics
/// If a text that no key holder sealed is opened, or what was sealed does not come back.
pub fn sealed_state(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        0 => made_up(rest),
        1 => sealed_elsewhere(rest),
        _ => sealed_here(rest),
    }
}

fn made_up(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    assert!(open(&hardened(), text).is_err(), "{text}");
    for mode in [StateMode::Signed, StateMode::Encrypted] {
        assert!(open(&compat(mode), text).is_err(), "{text}");
    }
}

/// What holds was sealed by a holder of the key, but its content may be of another version.
fn sealed_elsewhere(content: &[u8]) {
    let key = SealingKey::new(&key());
    let sealed = hardened::seal_plain(&key, [1; hardened::RANDOM_BYTES], content);
    if let Ok(opened) = open(&hardened(), &sealed) {
        assert!(content.ends_with(opened.state.as_bytes()));
        assert!(opened.expires_at_ms > NOW_MS);
    }
    for mode in [StateMode::Signed, StateMode::Encrypted] {
        let codec = compat(mode);
        let binding = codec.bind(&context()).expect("a plain subject");
        // A document without its own binding would never be looked into.
        let content = String::from_utf8_lossy(content).replace("BINDING", &binding);
        let sealed = codec.seal(content.as_bytes(), &binding, [2; NONCE_BYTES]);
        if let Ok(opened) = open(&codec, &sealed) {
            assert!(opened.expires_at_ms > NOW_MS);
        }
    }
}

fn sealed_here(bytes: &[u8]) {
    let Ok(state) = std::str::from_utf8(bytes) else {
        return;
    };
    let codecs: [&dyn StateCodec; 3] = [
        &hardened(),
        &compat(StateMode::Signed),
        &compat(StateMode::Encrypted),
    ];
    for codec in codecs {
        // A long state is refused.
        let Ok(sealed) = now(codec.encode(state, &context())) else {
            continue;
        };
        let opened = open(codec, &sealed).expect("what was sealed opens");
        assert_eq!(opened.state, state);
    }
}
