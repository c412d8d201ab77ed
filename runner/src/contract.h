#pragma once

#include <cstddef>
#include <cstdint>

/// Names and numbers that exporter, orchestrator and runner agree on. A change here changes kBundleVersion or kProtocolVersion.
namespace kz::contract {

/// Version of method names, inputs, outputs, tables and manifest; constant method `contract_version` of every program.
inline constexpr int64_t kBundleVersion = 1;
/// Version of the messages on stdin and stdout (PROTOCOL.md).
inline constexpr int kProtocolVersion = 1;

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kTalker[] = "talker";
inline constexpr char kCodePredictor[] = "code_predictor";
/// Optional: steps for what a fused code predictor cannot draw with.
inline constexpr char kCodePredictorSteps[] = "code_predictor_steps";
inline constexpr char kSpeechDecoder[] = "speech_decoder";
/// Optional: methods of the speech decoder that run elsewhere than the others.
inline constexpr char kSpeechDecoderNpu[] = "speech_decoder_npu";
inline constexpr char kSpeakerEncoder[] = "speaker_encoder";
inline constexpr char kCodecEmbeddings[] = "codec_embeddings";

inline constexpr char kPrefillMethod[] = "prefill";
inline constexpr char kDecodeMethod[] = "decode";
inline constexpr char kFrameMethod[] = "frame";
inline constexpr char kScoreMethod[] = "score";
inline constexpr char kEncodeMethod[] = "encode";
inline constexpr char kHeadMethodPrefix[] = "head_";

/// Longest header line of a message, newline included.
inline constexpr std::size_t kMaxHeaderBytes = 64 * 1024;
/// Largest payload of a message in either direction.
inline constexpr std::size_t kMaxPayloadBytes = 256u * 1024 * 1024;
/// Longest request id; keeps every answer's header far below kMaxHeaderBytes.
inline constexpr std::size_t kMaxIdBytes = 256;

/// Codes travel as int16.
inline constexpr int64_t kMaxVocabulary = 32768;

}  // namespace kz::contract
