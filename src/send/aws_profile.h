/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* aws_profile.h - what the shared files of AWS's tools say of one profile.
 *
 * Files:    AWS_CONFIG_FILE (~/.aws/config), then AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials),
 *           whose values win. Sections "[name]" and "[profile name]"; indented lines are skipped.
 * Threads:  owner.
 */
#ifndef KY_SEND_AWS_PROFILE_H
#define KY_SEND_AWS_PROFILE_H

/* "": not said, or too long. */
struct ky_aws_profile {
	char access_key[160], secret_key[160], token[4096];
	char region[64], endpoint[256];
	char role[256], role_session[72], external_id[256], web_token_file[512];
	char process[1024]; /* a program that prints the keys */
	char source[72];    /* the profile whose keys may take the role */
	const char *unread; /* a way to get keys that it names and we do not go; NULL: none */
};

/* name: the profile's. Files that are not there or cannot be read say nothing. */
void ky_aws_profile_read(struct ky_aws_profile *profile, const char *name);

#endif
