/* Calls a program that `tests.servers.prepared` forks, as calling.py does: ADDRESS ARGUMENT..., in this folder and with
   these variables. A Python that says as little takes thirty times as long to start. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;
static char *request;
static size_t length, room;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void add(const char *text, size_t size) {
  if (length + size > room) {
    room = 2 * (length + size);
    if (!(request = realloc(request, room))) fail("memory");
  }
  memcpy(request + length, text, size);
  length += size;
}

/* A text of JSON; bytes that are no UTF-8 stay, and the server knows them. */
static void add_text(const char *text, size_t size) {
  char escape[8];
  add("\"", 1);
  for (size_t n = 0; n < size; n++) {
    if (text[n] == '"' || text[n] == '\\' || (unsigned char)text[n] < 32)
      add(escape, sprintf(escape, "\\u%04x", text[n]));
    else
      add(text + n, 1);
  }
  add("\"", 1);
}

static void add_request(char **arguments) {
  char folder[4096];
  if (!getcwd(folder, sizeof folder)) fail("folder");
  add("[[", 2);
  for (char **one = arguments; *one; one++) {
    if (one != arguments) add(",", 1);
    add_text(*one, strlen(*one));
  }
  add("],", 2);
  add_text(folder, strlen(folder));
  add(",{", 2);
  const char *comma = "";
  for (char **one = environ; *one; one++) {
    char *equals = strchr(*one, '=');
    if (!equals) continue;
    add(comma, strlen(comma));
    comma = ",";
    add_text(*one, equals - *one);
    add(":", 1);
    add_text(equals + 1, strlen(equals + 1));
  }
  add("}]", 2);
}

/* The length of the request, and the files that its output and its errors go to. */
static void send_head(int channel) {
  unsigned char size[8];
  for (int n = 0; n < 8; n++) size[n] = (uint64_t)length >> (56 - 8 * n);
  union {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr aligned;
  } control = {0};
  struct iovec text = {size, sizeof size};
  struct msghdr message = {0};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  struct cmsghdr *files = CMSG_FIRSTHDR(&message);
  files->cmsg_level = SOL_SOCKET;
  files->cmsg_type = SCM_RIGHTS;
  files->cmsg_len = CMSG_LEN(2 * sizeof(int));
  memcpy(CMSG_DATA(files), (int[]){1, 2}, 2 * sizeof(int));
  if (sendmsg(channel, &message, 0) != sizeof size) fail("request");
}

int main(int count, char **words) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  unsigned char status;
  if (count < 2 || strlen(words[1]) >= sizeof address.sun_path) return 1;
  strcpy(address.sun_path, words[1]);
  int channel = socket(AF_UNIX, SOCK_STREAM, 0);
  if (channel < 0 || connect(channel, (struct sockaddr *)&address, sizeof address)) fail(words[1]);
  add_request(words + 2);
  send_head(channel);
  for (size_t sent = 0; sent < length;) {
    ssize_t more = write(channel, request + sent, length - sent);
    if (more < 0) fail("request");
    sent += more;
  }
  if (read(channel, &status, 1) != 1) status = 1; /* it was killed */
  if (status && isatty(1)) usleep(300000); /* act reads a terminal no further once a command of it has failed */
  return status;
}
