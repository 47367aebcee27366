# SPDX-License-Identifier: MIT
"""cryptography: RSA, ECDSA, AES-GCM, ChaCha20, SHA-512 and scrypt, in OpenSSL's assembly, through Rust."""
REQUIRES = ["cryptography"]
WITHIN = {r"\(_rust\.": r"^(signed|curves|sealed|hashed|derived) \("}
NEVER = [(r"^hashed \(", r"(?i)aes|rsaz|ecp_|bn_mul"), (r"^sealed \(", r"(?i)rsaz|ecp_|bn_mul")]


def signed():
    RSA.sign(DATA, padding.PKCS1v15(), hashes.SHA256())


def curves():
    for _ in range(10):
        EC.sign(DATA, ec.ECDSA(hashes.SHA256()))


def sealed():
    for cipher in CIPHERS:
        for _ in range(30):
            cipher.decrypt(b"0" * 12, cipher.encrypt(b"0" * 12, DATA * 30, None), None)


def hashed():
    for kind in (hashes.SHA512, hashes.SHA256, hashes.SHA3_256, hashes.BLAKE2b):
        digest = hashes.Hash(kind(64) if kind is hashes.BLAKE2b else kind())
        digest.update(DATA * 200)
        digest.finalize()


def derived():
    Scrypt(salt=b"salt", length=32, n=2048, r=8, p=1).derive(b"secret")


def setup():
    global hashes, padding, ec, Scrypt, RSA, EC, CIPHERS, DATA
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    RSA, EC = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    CIPHERS, DATA = [AESGCM(b"k" * 32), ChaCha20Poly1305(b"k" * 32)], b"data" * 1000


def work():
    signed()
    curves()
    sealed()
    hashed()
    derived()
