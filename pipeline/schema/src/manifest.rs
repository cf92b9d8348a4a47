//! A manifest, as a user writes it: questions to answer.
