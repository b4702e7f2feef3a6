// bus/client_table.hpp: the clients that have sent something: over which connection, in which shape, and what waits for them.
//
// ZeroMQ says which client a frame is from and which connection (file descriptor) it came over, and apart from that when a
// connection ends. This table joins the two. Only the socket's thread uses it.
#pragma once
#include "bus/bytes.hpp"
#include "bus/client_id.hpp"
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ebb::bus {

struct connected_client {
  int connection = -1;
  bool delimited = false;     // puts an empty part before the frame, as REQ sockets do, and wants it back
  std::deque<bytes> waiting;  // replies that ZeroMQ had no room for, oldest first
};

class client_table {
 public:
  void opened(int connection) { open_.insert(connection); }

  // The connection has ended: whose it was. They stay in the table until erase().
  std::vector<client_id> closed(int connection);

  // A frame came from this client. False if its connection has ended already, so that its end will not be announced again.
  bool seen(const client_id& who, int connection, bool delimited);

  bool knows(const client_id& who, int connection) const;

  connected_client* find(const client_id& who);
  void erase(const client_id& who) { clients_.erase(who); }

  // Those for whom something waits.
  std::vector<client_id> held_up() const;

 private:
  std::unordered_map<client_id, connected_client> clients_;
  std::unordered_set<int> open_;
};

}  // namespace ebb::bus
