// kernels/cuda/attention.hpp: the heads of a window's rows over their cached positions (kernels/attention.hpp), cut into chunks of positions.
//
// Two launches. Scores: a block a chunk, row and up to eight heads that share their keys, which writes q . k * scale and the largest of the chunk. Mix: a block a chunk,
// head and row, which needs the largest of all chunks; the last block of a head that ends adds the chunks in ascending order, divides
// and quantises. So bits depend on neither the number of blocks nor their order.
#pragma once
#include "kernels/attention.hpp"
#include "kernels/cuda/rows.hpp"

namespace ebb::kernels::cuda {

struct attention_arguments {
  const float* q;                  // [n_rows, n_heads * head_dim]
  kv_layer kv;
  const window_row* rows;          // [n_rows]
  std::uint32_t n_rows, n_heads;
  std::uint32_t chunks;            // of the longest row
  std::uint32_t context_stride;    // positions from one head's scores to the next; a multiple of attention_chunk
  float scale;
  // Scratch.
  float* scores;                   // [n_rows, n_heads, context_stride]
  float* chunk_max;                // [n_rows, n_heads, context_stride / attention_chunk]
  float* chunk_sum;                // the same
  float* chunk_out;                // [n_rows, n_heads, context_stride / attention_chunk, head_dim]
  std::uint32_t* arrivals;         // [n_rows, n_heads], zero before and after
  activation_buffer out;           // [n_rows, n_heads * head_dim]
};

// Pre: head_dim % 32 == 0 and head_dim <= 256 (asserts).
void attention(const attention_arguments& what, cudaStream_t stream);

// turn_and_store and attention in one launch, for rows that are each of another session and in the first chunk of positions: a block a head and row
// turns its query, and the row's key again, and needs nothing from another block. `what` as of attention; its scratch is not used.
void turn_and_attend(const turn_arguments& turn, const attention_arguments& what, cudaStream_t stream);

}  // namespace ebb::kernels::cuda
