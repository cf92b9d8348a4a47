//! The zoo at small sizes, for tests that hold one engine's outputs against another's.

use schema::Graph;

/// A network of the zoo, as small as its definition allows.
pub(crate) fn small(name: &str) -> Graph {
    let dims: &[(&str, u64)] = match name {
        "bert_tiny" | "bert_base" | "distilbert_base" | "gpt2" => &[("batch", 2), ("seq", 16)],
        "transformer_base" => &[("batch", 2), ("seq", 16), ("target", 11)],
        "lstm_lm" => &[("batch", 2), ("seq", 5)],
        "deepspeech2" => &[("batch", 2), ("frames", 13)],
        "vgg16" => &[("batch", 1), ("image", 224)],
        "vit_b16" => &[("batch", 2), ("image", 48)],
        "inception_v3" => &[("batch", 2), ("image", 75)],
        _ => &[("batch", 2), ("image", 64)],
    };
    let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size));
    models::zoo::build(name, &dims.collect()).unwrap()
}

/// A test for each network, which calls `$agree` with its name; all of the zoo must be among them. Where the long form
/// alone has some, no operator of theirs is without another test on the engine.
macro_rules! agreements {
    ($agree:ident: $($name:ident)+ $(; in the long form: $($long:ident)+)?) => {
        $(
            #[test]
            fn $name() {
                $agree(stringify!($name));
            }
        )+

        $($(
            #[test]
            fn $long() {
                if std::env::var_os("PHOTOFINISH_TEST_FULL").is_some() {
                    $agree(stringify!($long));
                }
            }
        )+)?

        #[test]
        fn the_whole_zoo_is_tested() {
            let tested = [$(stringify!($name),)+ $($(stringify!($long)),+)?];
            for name in models::zoo::names() {
                assert!(tested.contains(&AsRef::<str>::as_ref(&name)), "{name} is not");
            }
        }
    };
}
pub(crate) use agreements;
