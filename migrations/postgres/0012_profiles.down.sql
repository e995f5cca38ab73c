DROP TABLE profile_labels;
DROP TABLE profiles;
