// Loaded before MPI (LD_PRELOAD) into a process that is to stand still in the midst of a
// collective: by MPI's own profiling interface, it stops itself (SIGSTOP) where it calls MPI as it
// was told. The environment says where: STOP_RANK=1, and STOP_AT=MPI_Finalize, or
// MPI_Isend:CHANNEL:TAG:NUMBER, the channel by the order in which communicators were made
// (exec/processes/mpi/byte_transport.hpp).
// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::vector<MPI_Comm> channels;
int sent = 0;

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool is_chosen() { return setting("OMPI_COMM_WORLD_RANK") == setting("STOP_RANK"); }

void stop_in(const char* call) {
  if (is_chosen() && setting("STOP_AT") == call) static_cast<void>(std::raise(SIGSTOP));
}

int channel_of(MPI_Comm comm) {
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (channels[i] == comm) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* count, char*** words, int wanted, int* level) {
  stop_in("MPI_Init_thread");
  return PMPI_Init_thread(count, words, wanted, level);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  stop_in("MPI_Comm_dup");
  const int error = PMPI_Comm_dup(comm, made);
  channels.push_back(*made);
  return error;
}

int MPI_Finalize() {
  stop_in("MPI_Finalize");
  return PMPI_Finalize();
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  int channel = 0, wanted_tag = 0, number = 0;
  const std::string at = setting("STOP_AT");
  if (is_chosen() &&
      std::sscanf(at.c_str(), "MPI_Isend:%d:%d:%d", &channel, &wanted_tag, &number) == 3 &&
      channel_of(comm) == channel && tag == wanted_tag && ++sent == number)
    static_cast<void>(std::raise(SIGSTOP));
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
}
