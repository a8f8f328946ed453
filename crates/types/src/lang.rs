//! The languages of explanations. Stable words, errors and logs are English.

/// A language of explanations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Simplified Chinese.
    Zh,
}

/// One text in both languages. The arguments of `format!` follow, and both use all of them:
/// `say!(lang, "kept free for {job}", "已为 {job} 预留")`.
#[macro_export]
macro_rules! say {
    ($lang:expr, $en:literal, $zh:literal $(, $name:ident = $value:expr)* $(,)?) => {
        match $lang {
            $crate::Lang::En => format!($en $(, $name = $value)*),
            $crate::Lang::Zh => format!($zh $(, $name = $value)*),
        }
    };
}

impl Lang {
    /// Both languages.
    pub const ALL: [Lang; 2] = [Lang::En, Lang::Zh];

    /// The name in `Accept-Language` and `--lang`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.pick("en", "zh")
    }

    /// The language of `zh`, `zh-CN` (HTTP) or `zh_CN.UTF-8` (locales), if it is supported.
    #[must_use]
    pub fn of(tag: &str) -> Option<Self> {
        let language = tag.trim().split(['-', '_', '.', '@']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|lang| lang.as_str().eq_ignore_ascii_case(language))
    }

    /// A text without values.
    #[must_use]
    pub fn pick(self, en: &'static str, zh: &'static str) -> &'static str {
        match self {
            Lang::En => en,
            Lang::Zh => zh,
        }
    }

    /// `12 s`.
    #[must_use]
    pub fn seconds(self, seconds: f64) -> String {
        say!(self, "{seconds:.0} s", "{seconds:.0} 秒")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_tag_and_by_its_locale() {
        for tag in ["zh", "ZH-cn", " zh-Hans-CN", "zh_CN.UTF-8", "zh_TW@radical", "zh.utf8"] {
            assert_eq!(Lang::of(tag), Some(Lang::Zh), "{tag}");
        }
        assert_eq!(Lang::of("en_US.UTF-8"), Some(Lang::En));
        for tag in ["", "C", "POSIX", "de", "zhx", "*", "z"] {
            assert_eq!(Lang::of(tag), None, "{tag}");
        }
    }
}
