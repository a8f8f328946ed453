//! An issuer of JWTs for tests. It signs anything, also JWTs that no library would.

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use serde_json::{Value, json};

use crate::clock::wall;

pub(crate) enum Signer {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    pub(crate) fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    pub(crate) fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Signer::Ed(_) => "EdDSA",
            Signer::Ec(_) => "ES256",
            Signer::Rsa(_) => "RS256",
        }
    }

    /// The public half, as issuers publish it.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let text = |bytes: &[u8]| BASE64.encode(bytes);
        match self {
            Signer::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": text(pair.public_key().as_ref())})
            }
            Signer::Ec(pair) => {
                // 4, then both coordinates.
                let point = pair.public_key().as_ref();
                let (x, y) = (text(&point[1..33]), text(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": x, "y": y})
            }
            Signer::Rsa(pair) => {
                // A sequence of two numbers: 2048 bits after 9 bytes of head, then 65537.
                let n = text(&pair.public_key().as_ref()[9..265]);
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": id, "n": n, "e": "AQAB"})
            }
        }
    }

    /// A JWT with this header and these claims.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = match self {
            Signer::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Signer::Ec(pair) => {
                pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
            }
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let random = SystemRandom::new();
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// A JWT with these claims, under this key id.
    pub(crate) fn jwt(&self, id: &str, claims: &Value) -> String {
        self.sign(&json!({"alg": self.algorithm(), "typ": "JWT", "kid": id}), claims)
    }
}

/// The part of a JWT that is signed.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}

/// Seconds from now, as in `exp`.
pub(crate) fn in_seconds(seconds: i64) -> i64 {
    i64::try_from(wall().0).unwrap() / 1000 + seconds
}

/// Claims of this user that are valid for an hour.
pub(crate) fn claims(user: &str) -> Value {
    json!({"iss": "https://issuer.example", "aud": "ray", "sub": user, "exp": in_seconds(3600)})
}
