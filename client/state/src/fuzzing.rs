//! What fuzz targets call, in builds for tests and fuzzing alone: documents that an operator wrote.

/// Reads the document of a state tool.
///
/// # Panics
/// If it is taken for a tool of a type that it does not name.
#[cfg(feature = "yaml")]
pub fn tool_document(bytes: &[u8]) {
    let Ok(document) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(config) = crate::StateToolConfig::from_yaml(document) {
        // A YAML scalar may be written with escapes.
        let is_named = document.contains(config.kind()) || document.contains('\\');
        assert!(is_named, "{} of {document:?}", config.kind());
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "yaml")]
    #[test]
    fn seeds_of_each_target_hold() {
        crate::seeds::each("tool_document", super::tool_document);
    }
}
